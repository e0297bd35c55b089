// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the first octet selects how to parse the others: as a capture, or as the JSON
// description of a trial or of streams. All accepted input is made into frames, none of which may
// overrun its buffer or lack the signature at its end.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "traffic/frames/replay.h"
#include "traffic/frames/signature.h"
#include "traffic/frames/stream.h"
#include "traffic/trial/trial_options.h"

namespace headrace::traffic {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxFlows = 512;  // more flows test nothing new
constexpr Signature kSignature{.stream = 7, .sequence = 0xfffffffe, .time = 0xff12345678, .run = 9};

/// A buffer of exactly the size that may be written, between guard pages.
class Frame {
 public:
  explicit Frame(size_t room) : bytes_(room) {}
  uint8_t* data() { return bytes_.data(); }
  void check(uint16_t length) const {
    if (length < Signature::kBytes || length > bytes_.size()) std::abort();
    const auto read = Signature::read(bytes_.data() + length - Signature::kBytes);
    if (!read || read->sequence != kSignature.sequence || read->stream != kSignature.stream ||
        read->time != kSignature.time || read->run != kSignature.run) {
      std::abort();
    }
  }

 private:
  std::vector<uint8_t> bytes_;
};

void replay(const uint8_t* data, size_t size) {
  const int file = memfd_create("capture", MFD_CLOEXEC);
  if (file < 0) return;
  const bool written = write(file, data, size) == static_cast<ssize_t>(size);
  const auto opened = Replay::open("/proc/self/fd/" + std::to_string(file));
  close(file);
  if (!written || !opened) return;
  for (uint32_t i = 0; i < std::min(opened->packets(), kMaxFlows); ++i) {
    Frame frame(SizeProfile::kLargest - SizeProfile::kFcs);
    const uint16_t length = opened->write(frame.data(), i);
    kSignature.write(frame.data() + length - Signature::kBytes);
    opened->finish(frame.data(), i);
    frame.check(length);
  }
}

void make_frames(const Stream& stream) {
  for (size_t size = 0; size < stream.sizes.sizes.size(); ++size) {
    for (uint32_t flow = 0; flow < std::min(stream.flows(), kMaxFlows); flow += 7) {
      const auto shape = static_cast<unsigned>(size);
      Frame frame(std::max<size_t>(Headers::kMax, stream.frames.length(shape)));
      const uint16_t length = stream.frames.write(frame.data(), shape, flow);
      if (stream.frames.needs_finish()) stream.frames.clear_payload(frame.data(), shape);
      kSignature.write(frame.data() + length - Signature::kBytes);
      if (stream.frames.needs_finish()) stream.frames.finish(frame.data(), shape);
      frame.check(length);
    }
  }
}

/// Limits a document's flows, and removes file names.
void limit_document(json& list) {
  if (!list.is_array()) return;
  for (json& stream : list) {
    if (!stream.is_object()) continue;
    stream.erase("pcap");
    if (stream.contains("flows") && stream["flows"].is_number_unsigned()) {
      stream["flows"] = stream["flows"].get<uint64_t>() % (2 * kMaxFlows);
    }
  }
}

void describe(const uint8_t* data, size_t size, bool streams_only) {
  json document = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return;
  if (!streams_only) {
    (void)read_trial_options(document, {}, true);
    return;
  }
  limit_document(document);
  const auto streams = read_streams(document, "/streams");
  if (!streams) return;
  for (const Stream& stream : *streams) {
    if (!stream.replay) make_frames(stream);
    (void)stream.to_json().dump();
  }
  (void)read_trial_options(json{{"load_bps", 1e9}, {"duration_s", 1}}, *streams, true);
}

}  // namespace
}  // namespace headrace::traffic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::traffic;
  if (size == 0) return 0;
  switch (data[0] % 3) {
    case 0:
      replay(data + 1, size - 1);
      break;
    case 1:
      describe(data + 1, size - 1, true);
      break;
    default:
      describe(data + 1, size - 1, false);
  }
  return 0;
}
