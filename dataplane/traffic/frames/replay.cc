// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/replay.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "traffic/frames/checksum.h"
#include "traffic/frames/signature.h"

namespace headrace::traffic {

namespace {

constexpr uint16_t kSmallestFrame = SizeProfile::kSmallest - SizeProfile::kFcs;
constexpr uint16_t kLargestFrame = SizeProfile::kLargest - SizeProfile::kFcs;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;

using Bytes = std::vector<uint8_t>;

uint16_t load16(const Bytes& bytes, size_t at) {
  return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}

void store16(Bytes& bytes, size_t at, size_t value) {
  bytes[at] = static_cast<uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<uint8_t>(value);
}

uint64_t sum_words(const Bytes& bytes, size_t begin, size_t end) {
  uint64_t sum = 0;
  for (size_t i = begin; i + 1 < end; i += 2) sum += load16(bytes, i);
  if ((end - begin) % 2 != 0) sum += uint64_t{bytes[end - 1]} << 8;
  return sum;
}

std::string datalink_name(pcap_t* file) {
  const char* name = pcap_datalink_val_to_name(pcap_datalink(file));
  return name != nullptr ? name : std::to_string(pcap_datalink(file));
}

uint16_t fold(uint64_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

/// Offsets of a packet's headers; 0 for absent ones.
struct Layout {
  size_t l3{0};
  size_t l4{0};       ///< first byte after the IP header
  size_t payload{0};  ///< first byte that the signature may overwrite
  size_t end{0};      ///< one past the IP packet
  bool ipv6{false};
  uint8_t protocol{0};  ///< TCP or UDP if l4 begins with its header, else 0
};

/// Finds the outermost IP packet; nothing if there is none or it is incomplete.
std::optional<Layout> find_ip(const Bytes& bytes) {
  size_t at = 12;
  uint16_t type = 0;
  while (true) {
    if (at + 2 > bytes.size()) return std::nullopt;
    type = load16(bytes, at);
    at += 2;
    if (type != 0x8100 && type != 0x88A8) break;
    at += 2;
  }
  Layout layout{.l3 = at};
  bool fragment = false;
  if (type == 0x0800) {
    if (at + 20 > bytes.size()) return std::nullopt;
    layout.l4 = at + 4U * (bytes[at] & 15U);
    layout.end = at + load16(bytes, at + 2);
    layout.protocol = bytes[at + 9];
    fragment = (load16(bytes, at + 6) & 0x3fff) != 0;
  } else if (type == 0x86DD) {
    if (at + 40 > bytes.size()) return std::nullopt;
    layout.ipv6 = true;
    layout.l4 = at + 40;
    layout.end = layout.l4 + load16(bytes, at + 4);
    layout.protocol = bytes[at + 6];
  } else {
    return std::nullopt;
  }
  if (layout.l4 < at + 20 || layout.end < layout.l4 || layout.end > bytes.size()) {
    return std::nullopt;
  }
  layout.payload = layout.l4;
  size_t header = 0;
  if (layout.protocol == kUdp && layout.end >= layout.l4 + 8) header = 8;
  if (layout.protocol == kTcp && layout.end >= layout.l4 + 20) {
    header = 4U * (bytes[layout.l4 + 12] >> 4U);
    if (header < 20) header = 0;  // otherwise the signature would overwrite the checksum
  }
  if (fragment || header == 0 || layout.l4 + header > layout.end) {
    layout.protocol = 0;
  } else {
    layout.payload += header;
  }
  return layout;
}

/// The flow's identity: addresses, protocol and ports.
std::string flow_key(const Bytes& bytes, const Layout& layout) {
  const auto at = [&](size_t offset) { return bytes.begin() + static_cast<ptrdiff_t>(offset); };
  std::string key(at(layout.l3 + (layout.ipv6 ? 8 : 12)), at(layout.l3 + (layout.ipv6 ? 40 : 20)));
  key.push_back(static_cast<char>(layout.protocol));
  if (layout.protocol != 0) key.append(at(layout.l4), at(layout.l4 + 4));
  return key;
}

}  // namespace

/// A packet as it will be sent, with zeros in place of the signature.
struct Replay::Prepared {
  Bytes bytes;
  std::string key;  ///< of its flow
  uint16_t checksum_offset{0};
  uint16_t checksum_begin{0};
  bool checksum_is_udp{false};

  explicit Prepared(std::span<const uint8_t> captured) : bytes(captured.begin(), captured.end()) {
    const auto layout = find_ip(bytes);
    if (layout) {
      key = flow_key(bytes, *layout);
      make_room(*layout);
    } else {
      bytes.resize(std::max<size_t>(bytes.size() + Signature::kBytes, kSmallestFrame));
    }
  }

 private:
  void make_room(const Layout& layout) {
    bytes.resize(layout.end);
    // Lengthened to the minimum frame size too: padding would follow the signature.
    const size_t length =
        std::max<size_t>({bytes.size(), layout.payload + Signature::kBytes, kSmallestFrame});
    bytes.resize(length);
    std::fill(bytes.end() - Signature::kBytes, bytes.end(), 0);
    if (layout.ipv6) {
      store16(bytes, layout.l3 + 4, length - layout.l3 - 40);
    } else {
      store16(bytes, layout.l3 + 2, length - layout.l3);
      store16(bytes, layout.l3 + 10, 0);
      store16(bytes, layout.l3 + 10, fold(sum_words(bytes, layout.l3, layout.l4)));
    }
    if (layout.protocol == kUdp) {
      store16(bytes, layout.l4 + 4, length - layout.l4);
      store16(bytes, layout.l4 + 6, 0);
      if (layout.ipv6) cover(layout, 6);
    } else if (layout.protocol == kTcp) {
      store16(bytes, layout.l4 + 16, 0);
      cover(layout, 16);
    }
  }

  void cover(const Layout& layout, size_t at) {
    checksum_offset = static_cast<uint16_t>(layout.l4 + at);
    checksum_begin = static_cast<uint16_t>(layout.l4);
    checksum_is_udp = layout.protocol == kUdp;
    const size_t addresses = layout.l3 + (layout.ipv6 ? 8 : 12);
    const size_t bytes_of_addresses = layout.ipv6 ? 32 : 8;
    const uint64_t sum = sum_words(bytes, addresses, addresses + bytes_of_addresses) +
                         layout.protocol + (bytes.size() - layout.l4) +
                         sum_words(bytes, layout.l4, bytes.size());
    store16(bytes, checksum_offset, fold(sum));
  }
};

Result<Replay> Replay::open(const std::string& path) {
  char reason[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> file(
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, reason),
      &pcap_close);
  if (!file) return fail_as("bad_capture", "{}", reason);
  if (pcap_datalink(file.get()) != DLT_EN10MB) {
    return fail_as("bad_capture", "{}: holds {}, not Ethernet packets", path,
                   datalink_name(file.get()));
  }
  Replay replay;
  std::set<std::string> flows;
  uint64_t first = 0;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  int more = 0;
  while ((more = pcap_next_ex(file.get(), &header, &data)) == 1) {
    const size_t number = replay.packets_.size() + 1;
    if (header->caplen != header->len) {
      return fail_as("bad_capture", "{}: packet {} is cut off; capture with a larger snap length",
                     path, number);
    }
    if (header->caplen < 14)
      return fail_as("bad_capture", "{}: packet {}: too short", path, number);
    const Prepared prepared(std::span(data, header->caplen));
    if (prepared.bytes.size() > kLargestFrame) {
      return fail_as("bad_capture", "{}: packet {} has {} bytes; the maximum is {}", path, number,
                     prepared.bytes.size(), kLargestFrame);
    }
    if (number > kMaxPackets || replay.bytes_.size() + prepared.bytes.size() > kMaxBytes) {
      return fail_as("bad_capture", "{}: more than {} packets or {} MiB; cut it", path, kMaxPackets,
                     kMaxBytes >> 20);
    }
    const uint64_t time = static_cast<uint64_t>(header->ts.tv_sec) * 1'000'000'000 +
                          static_cast<uint64_t>(header->ts.tv_usec);
    if (replay.packets_.empty()) first = time;
    // The timestamps of a capture of several queues may decrease; those of a schedule may not.
    uint64_t after = time > first ? time - first : 0;
    if (!replay.times_ns_.empty()) after = std::max(after, replay.times_ns_.back());
    if (!prepared.key.empty()) flows.insert(prepared.key);
    replay.add(prepared, after);
  }
  if (more == PCAP_ERROR) return fail_as("bad_capture", "{}: {}", path, pcap_geterr(file.get()));
  if (replay.packets_.empty()) return fail_as("bad_capture", "{}: has no packets", path);
  replay.flows_ = static_cast<uint32_t>(flows.size());
  replay.describe(path);
  return replay;
}

void Replay::add(const Prepared& prepared, uint64_t time_ns) {
  packets_.push_back({.begin = static_cast<uint32_t>(bytes_.size()),
                      .length = static_cast<uint16_t>(prepared.bytes.size()),
                      .checksum_offset = prepared.checksum_offset,
                      .checksum_begin = prepared.checksum_begin,
                      .checksum_is_udp = prepared.checksum_is_udp});
  bytes_.insert(bytes_.end(), prepared.bytes.begin(), prepared.bytes.end());
  times_ns_.push_back(time_ns);
}

void Replay::describe(const std::string& path) {
  std::map<uint16_t, uint32_t> counts;
  for (const Packet& packet : packets_) {
    ++counts[static_cast<uint16_t>(packet.length + SizeProfile::kFcs)];
  }
  sizes_.name = "pcap:" + std::filesystem::path(path).filename().string();
  for (const auto& [size, count] : counts) {
    sizes_.sizes.push_back(size);
    sizes_.weights.push_back(count);
  }
}

uint64_t Replay::period_ns() const {
  const uint64_t span = times_ns_.back();
  const uint64_t gap = packets_.size() > 1 ? span / (packets_.size() - 1) : 0;
  return std::max<uint64_t>(span + gap, 1);
}

uint16_t Replay::write(uint8_t* frame, uint32_t number) const noexcept {
  const Packet& packet = packets_[number];
  std::memcpy(frame, bytes_.data() + packet.begin, packet.length);
  return packet.length;
}

void Replay::finish(uint8_t* frame, uint32_t number) const noexcept {
  const Packet& packet = packets_[number];
  if (packet.checksum_offset == 0) return;
  add_signature_to_checksum(frame, packet.length, packet.checksum_offset, packet.checksum_begin,
                            packet.checksum_is_udp);
}

}  // namespace headrace::traffic
