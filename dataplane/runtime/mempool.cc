// SPDX-License-Identifier: Apache-2.0
#include "runtime/mempool.h"

#include <rte_errno.h>
#include <rte_mbuf.h>

namespace headrace::runtime {

Result<Mempool> make_mempool(const MempoolOptions& options) {
  rte_mempool* pool = rte_pktmbuf_pool_create(
      options.name.c_str(), options.buffers, options.cache, options.private_size,
      static_cast<uint16_t>(options.data_size + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);
  if (pool == nullptr) {
    const uint64_t bytes =
        uint64_t{options.buffers} *
        (options.data_size + RTE_PKTMBUF_HEADROOM + options.private_size + sizeof(rte_mbuf) + 64);
    return fail("mempool {}: {} buffers ({} MiB): {}; give the program more memory", options.name,
                options.buffers, bytes >> 20, rte_strerror(rte_errno));
  }
  return Mempool(pool);
}

}  // namespace headrace::runtime
