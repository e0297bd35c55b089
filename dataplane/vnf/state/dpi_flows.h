// SPDX-License-Identifier: Apache-2.0
// The flows that `dpi` tracks and their detected application protocols.
//
// A flow is under detection (it has detector state) for its first packets, then decided until the
// timeout removes it. A flow that times out under detection is decided by the detector's best
// guess, so that it is counted.
//
// Thread safety: none; used by the worker only. Nothing allocates after make().
#pragma once

#include <rte_hash.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "vnf/net/flow_key.h"
#include "vnf/state/protocol_detector.h"

namespace headrace::vnf {

struct DpiFlow {
  FlowKey key;
  uint64_t last_seen;       ///< TSC
  uint64_t bytes_before;    ///< of the packets before it was decided
  uint32_t packets_before;  ///< seen before it was decided
  uint32_t detection;       ///< the detector's state, or ProtocolDetector::kNone once decided
  uint16_t application;
  uint16_t carrier;
  uint8_t packets;  ///< given to the detector
  bool in_use;
};

class DpiFlows {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kMaxKeys = 32;

  struct Limits {
    uint32_t flows;       ///< capacity
    uint32_t detecting;   ///< of these, under detection
    uint8_t packets;      ///< given to the detector before its best guess decides
    uint64_t timeout;     ///< TSC cycles
    uint64_t tsc_per_ms;  ///< the rate of the clock
    bool operator==(const Limits&) const = default;
  };

  static Result<std::unique_ptr<DpiFlows>> make(const Limits& limits);

  /// The flows of up to kMaxKeys keys; kNone for unknown ones.
  void find(std::span<const FlowKey> keys, std::array<uint32_t, kMaxKeys>& found) const noexcept;
  /// The flow of a key, added if it is new; kNone if the table is full.
  uint32_t find_or_add(const FlowKey& key, uint64_t now) noexcept;
  [[nodiscard]] DpiFlow& operator[](uint32_t index) noexcept { return flows_[index]; }
  [[nodiscard]] bool is_decided(uint32_t index) const noexcept {
    return flows_[index].detection == ProtocolDetector::kNone;
  }

  /// Gives a packet (from its IP header on) of a flow under detection to the detector. True if that
  /// decided the flow.
  bool inspect(uint32_t index, std::span<const uint8_t> packet, uint64_t now) noexcept;

  /// Removes flows whose timeout has expired, a part of the table at each call. Calls `decided` for
  /// those that were under detection until now.
  template <typename Decided>
  void sweep(uint64_t now, Decided&& decided) noexcept {
    const size_t part = flows_.size() / 1000 + 1;
    for (size_t i = 0; i < part; ++i) {
      next_swept_ = next_swept_ + 1 < flows_.size() ? next_swept_ + 1 : 0;
      DpiFlow& flow = flows_[next_swept_];
      if (!flow.in_use || now - flow.last_seen <= limits_.timeout) continue;
      if (flow.detection != ProtocolDetector::kNone) {
        decide(flow, detector_->conclude(flow.detection));
        decided(flow);
      }
      remove(flow);
    }
  }

  [[nodiscard]] uint32_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  [[nodiscard]] const ProtocolDetector& detector() const noexcept { return *detector_; }

 private:
  struct Free {
    void operator()(rte_hash* hash) const { rte_hash_free(hash); }
  };
  DpiFlows(rte_hash* hash, const Limits& limits, std::unique_ptr<ProtocolDetector> detector);
  void decide(DpiFlow& flow, const DetectedProtocol& protocol) noexcept;
  void remove(DpiFlow& flow) noexcept;

  std::unique_ptr<rte_hash, Free> hash_;
  Limits limits_;
  std::unique_ptr<ProtocolDetector> detector_;
  std::vector<DpiFlow> flows_;  ///< by the hash's position
  uint32_t in_use_{0};
  size_t next_swept_{0};
};

}  // namespace headrace::vnf
