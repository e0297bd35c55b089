// SPDX-License-Identifier: Apache-2.0
#include "vnf/shm_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

namespace headrace::vnf {
namespace {

constexpr unsigned kBurst = 64;

using FileId = std::pair<dev_t, ino_t>;

/// Regions that ports of this process use. Control thread only.
std::map<FileId, std::weak_ptr<ShmMemory>>& mapped_regions() {
  static std::map<FileId, std::weak_ptr<ShmMemory>> regions;
  return regions;
}

}  // namespace

Result<std::shared_ptr<ShmMemory>> ShmMemory::of(int region) {
  struct stat status {};
  if (fstat(region, &status) != 0) return fail("region: {}", std::strerror(errno));
  auto& place = mapped_regions()[{status.st_dev, status.st_ino}];
  if (auto found = place.lock()) return found;
  std::shared_ptr<ShmMemory> memory(new ShmMemory);
  memory->octets_ = shm::map_region(region);
  if (memory->octets_.empty()) return fail("region: {}", std::strerror(errno));
  shm::VnfEnd any;
  if (const int error = any.bind(memory->octets_, 0); error != 0) {
    return fail("region: {}: made by another version of the switch?", std::strerror(-error));
  }
  // Without a cache, the ring's count is the number of freed mbufs.
  auto mbufs = shm::MbufSet::make(
      std::to_string(status.st_ino),
      {.first_octets = any.buffers(), .stride = any.room(), .count = any.n_buffers()}, 0);
  if (!mbufs) return tl::unexpected(mbufs.error());
  memory->mbufs_ = std::move(*mbufs);
  memory->owners_.resize(any.n_buffers());
  // The pool holds only mbufs to be returned: initially this VNF holds no buffer.
  void* taken = nullptr;
  while (rte_mempool_get(memory->mbufs_.pool(), &taken) == 0) {
  }
  place = memory;
  return memory;
}

ShmMemory::~ShmMemory() {
  if (!octets_.empty()) munmap(octets_.data(), octets_.size());
}

void ShmMemory::return_buffers() noexcept {
  std::array<rte_mbuf*, kBurst> freed;
  for (;;) {
    const unsigned waiting = rte_mempool_avail_count(mbufs_.pool());
    const unsigned count = std::min(waiting, kBurst);
    if (count == 0) return;
    if (rte_mempool_get_bulk(mbufs_.pool(), reinterpret_cast<void**>(freed.data()), count) != 0) {
      return;
    }
    for (unsigned i = 0; i < count; ++i) {
      const uint32_t buffer = shm::MbufSet::buffer_of(freed[i]);
      if (shm::VnfEnd* end = owners_[buffer]) end->free(std::span(&buffer, 1));
    }
  }
}

}  // namespace headrace::vnf
