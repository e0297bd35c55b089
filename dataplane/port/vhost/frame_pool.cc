// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/frame_pool.h"

#include <rte_errno.h>
#include <rte_mbuf.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "pipeline/terms/port_io.h"

namespace headrace::port::vhost {
namespace {

/// A segment that Linux leaves to others: IP's 64 KiB and Ethernet, with two VLAN tags.
constexpr uint32_t kLongest = 65535 + 22;

/// What the calling thread may still take.
thread_local uint32_t left = 0;

int take(rte_mempool* pool, void** buffers, unsigned count) {
  if (count > left) return -ENOBUFS;
  const int error =
      rte_mempool_get_bulk(static_cast<rte_mempool*>(pool->pool_data), buffers, count);
  if (error == 0) left -= count;
  return error;
}

int give(rte_mempool* pool, void* const* buffers, unsigned count) {
  rte_mempool_put_bulk(static_cast<rte_mempool*>(pool->pool_data), buffers, count);
  return 0;
}

unsigned available(const rte_mempool* pool) {
  return rte_mempool_avail_count(static_cast<const rte_mempool*>(pool->pool_data));
}

int make(rte_mempool* /*pool*/) {
  return 0;
}

/// DPDK fills in the rest.
int register_operations() {
  rte_mempool_ops operations{};
  std::strncpy(operations.name, "vhost_frames", sizeof operations.name - 1);
  operations.alloc = make;
  operations.enqueue = give;
  operations.dequeue = take;
  operations.get_count = available;
  return rte_mempool_register_ops(&operations);
}

}  // namespace

Result<std::shared_ptr<FramePool>> FramePool::of(rte_mempool* buffers) {
  static std::map<rte_mempool*, std::weak_ptr<FramePool>> all;
  if (std::shared_ptr<FramePool> known = all[buffers].lock()) return known;
  static const int operations = register_operations();
  if (operations < 0) return fail("vhost-user: DPDK has no room for the operations of a mempool");
  static unsigned serial = 0;
  rte_mempool* pool = rte_mempool_create_empty(
      fmt::format("vhost-frames-{}", serial++).c_str(), 1, buffers->elt_size, 0,
      sizeof(rte_pktmbuf_pool_private), buffers->socket_id, 0);
  if (pool == nullptr) return fail("vhost-user: no mempool: {}", rte_strerror(rte_errno));
  pool->ops_index = operations;
  pool->pool_data = buffers;
  std::memcpy(rte_mempool_get_priv(pool), rte_mempool_get_priv(buffers),
              sizeof(rte_pktmbuf_pool_private));
  const uint32_t room = rte_pktmbuf_data_room_size(buffers) - RTE_PKTMBUF_HEADROOM;
  std::shared_ptr<FramePool> made(
      new FramePool(pool, pipeline::kBurst * ((kLongest + room - 1) / room)));
  all[buffers] = made;
  return made;
}

FramePool::~FramePool() {
  rte_mempool_free(pool_);
}

rte_mempool* FramePool::for_burst() noexcept {
  left = allowance_;
  return pool_;
}

}  // namespace headrace::port::vhost
