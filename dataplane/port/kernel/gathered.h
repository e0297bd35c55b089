// SPDX-License-Identifier: Apache-2.0
// A packet as the vector that writev() and sendmsg() take: a vnet header, then its buffers.
#pragma once

#include <rte_mbuf.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>

namespace headrace::port {

/// Fills `vector` with `header` and the packet's buffers; their number, or 0 if they are too many.
inline size_t gather(const rte_mbuf* packet, void* header, size_t octets,
                     std::span<iovec> vector) noexcept {
  if (size_t{packet->nb_segs} + 1 > vector.size()) return 0;
  vector[0] = {header, octets};
  size_t count = 1;
  for (const rte_mbuf* buffer = packet; buffer != nullptr; buffer = buffer->next) {
    vector[count++] = {rte_pktmbuf_mtod(buffer, void*), buffer->data_len};
  }
  return count;
}

}  // namespace headrace::port
