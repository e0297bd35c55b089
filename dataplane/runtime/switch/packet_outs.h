// SPDX-License-Identifier: Apache-2.0
// An LSI's packet-outs on their way from the controller to a worker, and those that got lost.
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
  /// Both must outlive it.
  PacketOuts(BufferPools& pools, WorkerPool& workers) : pools_(pools), workers_(workers) {}

  /// As AgentHost::packet_out().
  bool send(const std::shared_ptr<pipeline::Lsi>& lsi, pipeline::PortNo in_port,
            std::unique_ptr<pipeline::ActionProgram> actions, openflow::Bytes packet);

  [[nodiscard]] const PacketOutDrops& drops() const { return drops_; }

 private:
  /// Queues a packet-out, or waits a moment for room; false: there is none.
  bool submit(std::unique_ptr<PacketOutJob>& job);

  BufferPools& pools_;
  WorkerPool& workers_;
  PacketOutDrops drops_;
  bool worker_keeps_up_{true};  ///< a full queue is worth waiting for
};

}  // namespace headrace::runtime
