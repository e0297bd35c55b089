// SPDX-License-Identifier: Apache-2.0
// Packets kept for the controller, which got only their beginning and may send them on by id.
//
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

/// A ring of packets. A slot is reused once its packet was taken or is older than kKeep, so an id
/// that was never answered costs nothing for long.
class PacketBuffers {
 public:
  static constexpr size_t kCount = 256;
  static constexpr std::chrono::seconds kKeep{5};

  struct Packet {
    pipeline::PortNo in_port;
    std::vector<uint8_t> data;
  };

  /// Keeps a copy; nothing if all slots hold young packets.
  std::optional<uint32_t> put(pipeline::PortNo in_port, Bytes data);
  /// Hands out a kept packet; BUFFER_EMPTY if it was taken already, BUFFER_UNKNOWN if the id names
  /// none.
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
