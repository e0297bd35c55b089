// SPDX-License-Identifier: Apache-2.0
#include "shm/mbufs.h"

#include <rte_errno.h>

namespace headrace::shm {
namespace {

struct Numbering {
  const BufferArea& area;
  std::vector<rte_mbuf*>& mbufs;
};

}  // namespace

Result<MbufSet> MbufSet::make(const std::string& name, const BufferArea& area, uint32_t cache) {
  rte_pktmbuf_extmem memory{};
  memory.buf_ptr = area.first_octets;
  memory.buf_iova = reinterpret_cast<rte_iova_t>(memory.buf_ptr);
  memory.buf_len = size_t{area.count} * area.stride;
  memory.elt_size = static_cast<uint16_t>(area.stride);
  const std::string short_name = "shm_" + name.substr(0, 20);
  MbufSet made;
  made.pool_ = rte_pktmbuf_pool_create_extbuf(short_name.c_str(), area.count, cache,
                                              sizeof(uint64_t), static_cast<uint16_t>(area.stride),
                                              static_cast<int>(SOCKET_ID_ANY), &memory, 1);
  if (made.pool_ == nullptr) {
    return fail("{}: {} mbufs could not be made: {}; give the program more memory", name,
                area.count, rte_strerror(rte_errno));
  }
  made.mbufs_.resize(area.count);
  Numbering numbering{area, made.mbufs_};
  rte_mempool_obj_iter(
      made.pool_,
      [](rte_mempool*, void* user, void* object, unsigned) {
        auto& [area, mbufs] = *static_cast<Numbering*>(user);
        auto* packet = static_cast<rte_mbuf*>(object);
        const auto at = static_cast<uint8_t*>(packet->buf_addr) - area.first_octets;
        const auto number = static_cast<uint32_t>(at / area.stride);
        *reinterpret_cast<uint32_t*>(packet + 1) = number;
        mbufs[number] = packet;
      },
      &numbering);
  return made;
}

}  // namespace headrace::shm
