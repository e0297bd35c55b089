// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/packet_buffers.h"

#include <utility>

namespace headrace::openflow {

std::optional<uint32_t> PacketBuffers::put(pipeline::PortNo in_port, Bytes data) {
  Slot& slot = slots_[next_ % kCount];
  const Clock::time_point now = Clock::now();
  if (slot.full && now - slot.since < kKeep) return std::nullopt;
  // Ids continue beyond the ring's size, so that a late reference can't release a newer packet.
  slot.id = next_;
  slot.full = true;
  slot.since = now;
  slot.packet = {in_port, {data.begin(), data.end()}};
  next_ = next_ + 1 == pipeline::kNoBuffer ? 0 : next_ + 1;
  return slot.id;
}

OfResult<PacketBuffers::Packet> PacketBuffers::take(uint32_t id) {
  Slot& slot = slots_[id % kCount];
  if (slot.id != id) return of_fail(error::kBufferUnknown);
  if (!slot.full) return of_fail(error::kBufferEmpty);
  slot.full = false;
  return std::exchange(slot.packet, {});
}

}  // namespace headrace::openflow
