// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/dpi_flows.h"

#include <rte_errno.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>

namespace headrace::vnf {

Result<std::unique_ptr<DpiFlows>> DpiFlows::make(const Limits& limits) {
  static unsigned serial = 0;  // the control thread makes them; names are unique in a process
  auto detector = ProtocolDetector::make(limits.detecting);
  if (!detector) return tl::unexpected(detector.error());
  const auto name = fmt::format("dpi{}", serial++);
  rte_hash_parameters parameters{};
  parameters.name = name.c_str();
  parameters.entries = limits.flows;
  parameters.key_len = sizeof(FlowKey);
  parameters.hash_func = rte_hash_crc;
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE;
  rte_hash* hash = rte_hash_create(&parameters);
  if (hash == nullptr) {
    return fail("no memory for {} flows: {}; raise eal.memory_mb", limits.flows,
                rte_strerror(rte_errno));
  }
  return std::unique_ptr<DpiFlows>(new DpiFlows(hash, limits, *std::move(detector)));
}

DpiFlows::DpiFlows(rte_hash* hash, const Limits& limits, std::unique_ptr<ProtocolDetector> detector)
    : hash_(hash),
      limits_(limits),
      detector_(std::move(detector)),
      flows_(static_cast<size_t>(rte_hash_max_key_id(hash)) + 1) {}

void DpiFlows::find(std::span<const FlowKey> keys,
                    std::array<uint32_t, kMaxKeys>& found) const noexcept {
  if (keys.empty()) return;
  std::array<const void*, kMaxKeys> pointers;
  std::array<int32_t, kMaxKeys> positions;
  for (size_t i = 0; i < keys.size(); ++i) pointers[i] = &keys[i];
  rte_hash_lookup_bulk(hash_.get(), pointers.data(), static_cast<uint32_t>(keys.size()),
                       positions.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    found[i] = positions[i] < 0 ? kNone : static_cast<uint32_t>(positions[i]);
  }
}

uint32_t DpiFlows::find_or_add(const FlowKey& key, uint64_t now) noexcept {
  if (in_use_ == limits_.flows) {
    const int known = rte_hash_lookup(hash_.get(), &key);
    return known < 0 ? kNone : static_cast<uint32_t>(known);
  }
  const int position = rte_hash_add_key(hash_.get(), &key);
  if (position < 0) return kNone;
  DpiFlow& flow = flows_[static_cast<size_t>(position)];
  if (flow.in_use) return static_cast<uint32_t>(position);  // added earlier in this burst
  const uint32_t detection = detector_->begin();
  if (detection == ProtocolDetector::kNone) {
    rte_hash_del_key(hash_.get(), &key);
    return kNone;
  }
  flow = {.key = key,
          .last_seen = now,
          .bytes_before = 0,
          .packets_before = 0,
          .detection = detection,
          .application = 0,
          .carrier = 0,
          .packets = 0,
          .in_use = true};
  ++in_use_;
  return static_cast<uint32_t>(position);
}

bool DpiFlows::inspect(uint32_t index, std::span<const uint8_t> packet, uint64_t now) noexcept {
  DpiFlow& flow = flows_[index];
  auto protocol = detector_->inspect(flow.detection, packet, now / limits_.tsc_per_ms);
  if (!protocol.is_final && ++flow.packets >= limits_.packets) {
    protocol = detector_->conclude(flow.detection);
  }
  if (!protocol.is_final) return false;
  decide(flow, protocol);
  return true;
}

void DpiFlows::decide(DpiFlow& flow, const DetectedProtocol& protocol) noexcept {
  flow.application = protocol.application;
  flow.carrier = protocol.carrier;
  detector_->end(flow.detection);
  flow.detection = ProtocolDetector::kNone;
}

void DpiFlows::remove(DpiFlow& flow) noexcept {
  rte_hash_del_key(hash_.get(), &flow.key);
  flow.in_use = false;
  --in_use_;
}

}  // namespace headrace::vnf
