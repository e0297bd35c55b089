// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/protocol_detector.h"

#include <ndpi_api.h>
#include <strings.h>

#include <algorithm>
#include <cstring>

namespace headrace::vnf {
namespace {

constexpr size_t kWord = sizeof(uint64_t);

}  // namespace

void ProtocolDetector::Free::operator()(ndpi_detection_module_struct* module) const {
  ndpi_exit_detection_module(module);
}

Result<std::unique_ptr<ProtocolDetector>> ProtocolDetector::make(uint32_t concurrent) {
  auto* module = ndpi_init_detection_module(ndpi_no_prefs);
  if (module == nullptr) return fail("nDPI {} can't be initialized: no memory", version());
  std::unique_ptr<ProtocolDetector> detector(new ProtocolDetector(module, concurrent));
  NDPI_PROTOCOL_BITMASK all;
  NDPI_BITMASK_SET_ALL(all);
  ndpi_set_protocol_detection_bitmask2(module, &all);
  ndpi_finalize_initialization(module);
  const auto count = static_cast<uint16_t>(ndpi_get_num_supported_protocols(module));
  for (uint16_t id = 0; id < count; ++id) {
    const char* name = ndpi_get_proto_name(module, id);
    detector->names_.emplace_back(name != nullptr ? name : fmt::format("{}", id));
  }
  detector->flow_size_ = (ndpi_detection_get_sizeof_ndpi_flow_struct() + kWord - 1) / kWord * kWord;
  detector->flows_.resize(concurrent * detector->flow_size_ / kWord);
  detector->free_.reserve(concurrent);
  for (uint32_t i = concurrent; i-- > 0;) detector->free_.push_back(i);
  return detector;
}

ProtocolDetector::~ProtocolDetector() {
  // nDPI frees what a flow's state points to; a free state is all zeroes, which nDPI ignores.
  for (uint32_t i = 0; i < concurrent_; ++i) ndpi_free_flow_data(flow(i));
}

ndpi_flow_struct* ProtocolDetector::flow(uint32_t state) noexcept {
  return reinterpret_cast<ndpi_flow_struct*>(&flows_[state * flow_size_ / kWord]);
}

uint32_t ProtocolDetector::begin() noexcept {
  if (free_.empty()) return kNone;
  const uint32_t state = free_.back();
  free_.pop_back();
  return state;
}

/// Numbers index tables, so a number without a name is mapped to "unknown".
DetectedProtocol ProtocolDetector::of_known_numbers(DetectedProtocol protocol) const noexcept {
  if (protocol.application >= protocols()) protocol.application = 0;
  if (protocol.carrier >= protocols()) protocol.carrier = 0;
  return protocol;
}

DetectedProtocol ProtocolDetector::inspect(uint32_t state, std::span<const uint8_t> packet,
                                           uint64_t now_ms) noexcept {
  const auto found = ndpi_detection_process_packet(module_.get(), flow(state), packet.data(),
                                                   static_cast<uint16_t>(packet.size()), now_ms);
  const bool known = found.app_protocol != NDPI_PROTOCOL_UNKNOWN;
  return of_known_numbers(
      {.application = found.app_protocol,
       .carrier = found.master_protocol,
       .is_final = known && ndpi_extra_dissection_possible(module_.get(), flow(state)) == 0});
}

DetectedProtocol ProtocolDetector::conclude(uint32_t state) noexcept {
  uint8_t guessed = 0;
  const auto found = ndpi_detection_giveup(module_.get(), flow(state), 1, &guessed);
  return of_known_numbers(
      {.application = found.app_protocol, .carrier = found.master_protocol, .is_final = true});
}

void ProtocolDetector::end(uint32_t state) noexcept {
  ndpi_free_flow_data(flow(state));
  std::memset(static_cast<void*>(flow(state)), 0, flow_size_);
  free_.push_back(state);
}

std::optional<uint16_t> ProtocolDetector::find(std::string_view name) const {
  const auto it = std::find_if(names_.begin(), names_.end(), [&](const std::string& one) {
    return one.size() == name.size() && strncasecmp(one.data(), name.data(), name.size()) == 0;
  });
  if (it == names_.end()) return std::nullopt;
  return static_cast<uint16_t>(it - names_.begin());
}

std::string ProtocolDetector::version() {
  return ndpi_revision();
}

}  // namespace headrace::vnf
