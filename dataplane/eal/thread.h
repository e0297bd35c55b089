// SPDX-License-Identifier: Apache-2.0
// Threads that poll: pinned to a CPU and registered with DPDK, so that mempool caches and RCU work
// in them as in EAL's own.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace headrace::eal {

/// Pins the calling thread to `cpu`. Fails if the process may not run there.
Result<> pin_this_thread(uint32_t cpu);

/// Whether a thread of this process may run on `cpu`.
[[nodiscard]] bool is_cpu_usable(uint32_t cpu);

/// The NUMA node of a CPU; nothing on machines that do not say.
[[nodiscard]] std::optional<int> numa_node_of(uint32_t cpu);

/// Names the calling thread, as `top -H` shows it; at most 15 characters count.
void name_this_thread(const char* name);

/// Registers the calling thread with DPDK for as long as the object lives (rte_thread_register()).
/// Create and destroy it in the same thread; EAL must be up.
class DpdkThread {
 public:
  DpdkThread();
  ~DpdkThread();
  DpdkThread(const DpdkThread&) = delete;
  DpdkThread& operator=(const DpdkThread&) = delete;

  /// False if DPDK has no lcore id left (128 in all): the thread works, without mempool caches.
  [[nodiscard]] bool registered() const { return registered_; }

 private:
  bool registered_;
};

}  // namespace headrace::eal
