// SPDX-License-Identifier: Apache-2.0
// Packets from the controller on their way to a worker, and the jobs' way back.
//
// A job owns what the worker reads while it runs: the actions, and a share of the LSI. So it comes
// back, after the worker has flushed, and the control thread destroys it. There are never more jobs
// under way than the ring holds; so the way back is never full.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "pipeline/control/lsi.h"
#include "pipeline/execute/executor.h"
#include "runtime/workers/punt_ring.h"

namespace headrace::runtime {

/// One packet-out. Made and destroyed by the control thread.
struct PacketOutJob {
  std::shared_ptr<pipeline::Lsi> lsi;
  pipeline::PortNo in_port;
  std::shared_ptr<pipeline::ActionProgram> actions;
  rte_mbuf* packet;
};

class PacketOutRing {
 public:
  static constexpr unsigned kCapacity = 1024;

  static Result<std::unique_ptr<PacketOutRing>> make(const std::string& name);
  /// No worker may use it any more; frees jobs and packets that were not run.
  ~PacketOutRing();

  // Control thread:
  /// False if kCapacity jobs are under way; `job` is then as it was.
  bool submit(std::unique_ptr<PacketOutJob>& job);
  /// Destroys the jobs that are done; true if some are still under way.
  bool reap();

  // Worker:
  /// Runs the jobs that wait, one burst of them at most; how many.
  unsigned run(pipeline::Executor& executor) noexcept;
  /// After the flush that follows run(): gives the jobs back.
  void give_back() noexcept;

 private:
  PacketOutRing(Ring to_worker, Ring back)
      : to_worker_(std::move(to_worker)), back_(std::move(back)) {}

  Ring to_worker_;
  Ring back_;
  unsigned under_way_{0};                ///< control thread's
  PacketOutJob* ran_[pipeline::kBurst];  ///< worker's
  unsigned ran_count_{0};                ///< worker's
};

}  // namespace headrace::runtime
