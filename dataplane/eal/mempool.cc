// SPDX-License-Identifier: Apache-2.0
#include "eal/mempool.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>

namespace headrace::eal {

namespace {

/// As rte_pktmbuf_pool_create(), which cannot make buffers that are larger than a page where pages
/// are ordinary ones: it wants each to be contiguous for the bus. We always have EAL use virtual
/// addresses there, for which all memory is.
rte_mempool* make(const MempoolOptions& options) {
  rte_pktmbuf_pool_private common{
      .mbuf_data_room_size = static_cast<uint16_t>(options.data_size + RTE_PKTMBUF_HEADROOM),
      .mbuf_priv_size = options.private_size,
      .flags = 0};
  const unsigned each =
      static_cast<unsigned>(sizeof(rte_mbuf)) + options.private_size + common.mbuf_data_room_size;
  const unsigned flags =
      rte_eal_iova_mode() == RTE_IOVA_VA ? unsigned{RTE_MEMPOOL_F_NO_IOVA_CONTIG} : 0;
  Mempool pool(rte_mempool_create_empty(options.name.c_str(), options.buffers, each, options.cache,
                                        sizeof common, options.node, flags));
  if (!pool) return nullptr;
  const int refused = rte_mempool_set_ops_byname(pool.get(), rte_mbuf_best_mempool_ops(), nullptr);
  if (refused != 0) {
    rte_errno = -refused;
    return nullptr;
  }
  rte_pktmbuf_pool_init(pool.get(), &common);
  if (const int made = rte_mempool_populate_default(pool.get()); made < 0) {
    rte_errno = -made;
    return nullptr;
  }
  rte_mempool_obj_iter(pool.get(), rte_pktmbuf_init, nullptr);
  return pool.release();
}

}  // namespace

Result<Mempool> make_mempool(const MempoolOptions& options) {
  rte_mempool* pool = make(options);
  if (pool == nullptr) {
    const uint64_t bytes =
        uint64_t{options.buffers} *
        (options.data_size + RTE_PKTMBUF_HEADROOM + options.private_size + sizeof(rte_mbuf) + 64);
    return fail("mempool {}: {} buffers ({} MiB): {}; give the program more memory", options.name,
                options.buffers, bytes >> 20, rte_strerror(rte_errno));
  }
  return Mempool(pool);
}

}  // namespace headrace::eal
