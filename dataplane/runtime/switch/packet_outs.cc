// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/packet_outs.h"

#include <rte_mbuf.h>

#include <algorithm>
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

Worker* PacketOuts::choose_worker() {
  const auto workers = workers_.workers();
  if (workers.empty()) return nullptr;
  const auto last = std::ranges::find(workers, worker_, &Worker::number);
  const bool is_here = generation_ != 0 && last != workers.end();
  if (is_here && generation_ == workers_.generation()) return last->get();
  // Packets that it has not run yet must not be overtaken.
  if (is_here && (*last)->packet_outs().reap()) return last->get();
  Worker& next = *workers[lsi_ % workers.size()];
  worker_ = next.number();
  generation_ = workers_.generation();
  return &next;
}

bool PacketOuts::submit(std::unique_ptr<PacketOutJob>& job) {
  using Clock = std::chrono::steady_clock;
  // A controller may well send faster than a slow device, for a while. A worker that stands still
  // is waited for once.
  constexpr auto kPatience = std::chrono::milliseconds(1);
  Worker* worker = choose_worker();
  if (worker == nullptr) return false;
  PacketOutRing& ring = worker->packet_outs();
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
