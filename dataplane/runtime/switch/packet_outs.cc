// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/packet_outs.h"

#include <rte_mbuf.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "pipeline/program/action_program.h"

namespace headrace::runtime {

bool PacketOuts::send(const std::shared_ptr<pipeline::Lsi>& lsi, pipeline::PortNo in_port,
                      std::unique_ptr<pipeline::ActionProgram> actions, openflow::Bytes packet) {
  const Result<rte_mempool*> pool = pools_.for_frame(static_cast<uint32_t>(packet.size()));
  rte_mbuf* buffer = pool ? rte_pktmbuf_alloc(*pool) : nullptr;
  char* data = buffer == nullptr ? nullptr
                                 : rte_pktmbuf_append(buffer, static_cast<uint16_t>(packet.size()));
  if (data == nullptr) {
    rte_pktmbuf_free(buffer);
    ++drops_.no_buffer;
    return false;
  }
  std::memcpy(data, packet.data(), packet.size());
  auto job = std::make_unique<PacketOutJob>(PacketOutJob{lsi, in_port, std::move(actions), buffer});
  if (submit(job)) return true;
  rte_pktmbuf_free(buffer);
  ++drops_.queue_full;
  return false;
}

bool PacketOuts::submit(std::unique_ptr<PacketOutJob>& job) {
  using Clock = std::chrono::steady_clock;
  // A controller may well send faster than a slow device, for a while. A worker that stands still
  // is waited for once.
  constexpr auto kPatience = std::chrono::milliseconds(1);
  if (workers_.workers().empty()) return false;
  PacketOutRing& ring = workers_.workers().front()->packet_outs();
  bool done = ring.submit(job);
  if (!done && worker_keeps_up_) {
    const auto end = Clock::now() + kPatience;
    while (!done && Clock::now() < end) {
      std::this_thread::yield();
      done = ring.submit(job);
    }
  }
  worker_keeps_up_ = done;
  return done;
}

}  // namespace headrace::runtime
