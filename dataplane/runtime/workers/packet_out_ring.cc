// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers/packet_out_ring.h"

#include <rte_errno.h>

namespace headrace::runtime {

Result<std::unique_ptr<PacketOutRing>> PacketOutRing::make(const std::string& name) {
  constexpr unsigned kFlags = RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ;
  Ring to_worker(rte_ring_create((name + "-o").c_str(), kCapacity, SOCKET_ID_ANY, kFlags));
  Ring back(rte_ring_create((name + "-b").c_str(), kCapacity, SOCKET_ID_ANY, kFlags));
  if (!to_worker || !back) return fail("ring {}: {}", name, rte_strerror(rte_errno));
  return std::unique_ptr<PacketOutRing>(new PacketOutRing(std::move(to_worker), std::move(back)));
}

PacketOutRing::~PacketOutRing() {
  give_back();
  void* pointer = nullptr;
  while (rte_ring_sc_dequeue(to_worker_.get(), &pointer) == 0) {
    const std::unique_ptr<PacketOutJob> job(static_cast<PacketOutJob*>(pointer));
    rte_pktmbuf_free(job->packet);
  }
  reap();
}

bool PacketOutRing::submit(std::unique_ptr<PacketOutJob>& job) {
  reap();
  if (under_way_ == kCapacity || rte_ring_sp_enqueue(to_worker_.get(), job.get()) != 0) {
    return false;
  }
  (void)job.release();  // the ring's now
  ++under_way_;
  return true;
}

bool PacketOutRing::reap() {
  void* pointer = nullptr;
  while (rte_ring_sc_dequeue(back_.get(), &pointer) == 0) {
    delete static_cast<PacketOutJob*>(pointer);
    --under_way_;
  }
  return under_way_ > 0;
}

unsigned PacketOutRing::run(pipeline::Executor& executor) noexcept {
  void** jobs = reinterpret_cast<void**>(ran_);
  ran_count_ = rte_ring_sc_dequeue_burst(to_worker_.get(), jobs, pipeline::kBurst, nullptr);
  for (unsigned i = 0; i < ran_count_; ++i) {
    const PacketOutJob& job = *ran_[i];
    executor.packet_out(job.lsi->program(), job.in_port, *job.actions, job.packet);
  }
  return ran_count_;
}

void PacketOutRing::give_back() noexcept {
  if (ran_count_ == 0) return;
  rte_ring_sp_enqueue_bulk(back_.get(), reinterpret_cast<void**>(ran_), ran_count_, nullptr);
  ran_count_ = 0;
}

}  // namespace headrace::runtime
