// SPDX-License-Identifier: Apache-2.0
// Buffers packets of which the controller got only the beginning, so that it can refer to them by
// id.
// Source: OpenFlow 1.3.5, section 6.1.2 (packet buffering).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {

/// A ring of packets. A slot is reused once its packet was taken or is older than kKeep, so a
/// controller that never refers to a buffer can't exhaust the ring.
class PacketBuffers {
 public:
  static constexpr size_t kCount = 256;
  static constexpr std::chrono::seconds kKeep{5};

  struct Packet {
    pipeline::PortNo in_port;
    std::vector<uint8_t> data;
  };

  /// Stores a copy and returns its id; nothing if no slot can be reused.
  std::optional<uint32_t> put(pipeline::PortNo in_port, Bytes data);
  /// Removes and returns a packet; BUFFER_EMPTY if it was taken already, BUFFER_UNKNOWN if the id
  /// is unknown.
  OfResult<Packet> take(uint32_t id);

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    uint32_t id{pipeline::kNoBuffer};
    bool full{false};
    Clock::time_point since;
    Packet packet;
  };

  std::array<Slot, kCount> slots_;
  uint32_t next_{0};
};

}  // namespace headrace::openflow
