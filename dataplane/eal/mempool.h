// SPDX-License-Identifier: Apache-2.0
// A pool of packet buffers, freed by its destructor.
#pragma once

#include <rte_mempool.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace headrace::eal {

struct MempoolFree {
  void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
};

/// Owns the pool. All of its buffers must be back before it goes: stop devices and workers first.
using Mempool = std::unique_ptr<rte_mempool, MempoolFree>;

struct MempoolOptions {
  std::string name;         ///< unique in the process, at most 25 characters
  uint32_t buffers = 8192;  ///< 2^n - 1 wastes least
  uint16_t cache = 256;     ///< buffers that each thread may hold back
  uint16_t private_size = 0;
  /// Bytes of packet that fit one buffer, headroom (RTE_PKTMBUF_HEADROOM) not counted.
  uint16_t data_size = 2048;
  int node = -1;  ///< NUMA node that its memory is to be of; -1: any
};

/// Makes a pool of mbufs. Fails with how much memory it would have taken.
Result<Mempool> make_mempool(const MempoolOptions& options);

}  // namespace headrace::eal
