// SPDX-License-Identifier: Apache-2.0
// An LSI's packet-outs on their way from the controller to a worker, and those that got lost.
//
// All packet-outs of an LSI are run, and so sent, by one worker, which keeps their order; LSIs are
// dealt over the workers. When the workers change an LSI gets another one only after what it has
// under way is done: what a worker has not run when it ends is freed.
//
// Thread safety: control thread only.
#pragma once

#include <cstdint>
#include <memory>

#include "openflow/agent/host.h"
#include "pipeline/control/lsi.h"
#include "runtime/switch/buffer_pools.h"
#include "runtime/workers/worker_pool.h"

namespace headrace::runtime {

/// Packet-outs that reached no worker.
struct PacketOutDrops {
  uint64_t queue_full{0};
  uint64_t no_buffer{0};
};

class PacketOuts {
 public:
  /// Both must outlive it. `lsi` is the LSI's id.
  PacketOuts(BufferPools& pools, WorkerPool& workers, uint32_t lsi)
      : pools_(pools), workers_(workers), lsi_(lsi) {}

  /// As AgentHost::packet_out().
  bool send(const std::shared_ptr<pipeline::Lsi>& lsi, pipeline::PortNo in_port,
            std::unique_ptr<pipeline::ActionProgram> actions, openflow::Bytes packet);

  [[nodiscard]] const PacketOutDrops& drops() const { return drops_; }

 private:
  /// Queues a packet-out, or waits a moment for room; false: there is none.
  bool submit(std::unique_ptr<PacketOutJob>& job);
  /// The worker that runs them at present; null: there is none.
  Worker* choose_worker();

  BufferPools& pools_;
  WorkerPool& workers_;
  uint32_t lsi_;
  unsigned worker_{0};      ///< the number of the one that was chosen last
  uint64_t generation_{0};  ///< of the workers when it was chosen
  PacketOutDrops drops_;
  bool worker_keeps_up_{true};  ///< a full queue is worth waiting for
};

}  // namespace headrace::runtime
