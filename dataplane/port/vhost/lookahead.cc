// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/lookahead.h"

#include <rte_vhost.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/prefetch.h"

namespace headrace::port::vhost {
namespace {

constexpr uint64_t kLine = RTE_CACHE_LINE_SIZE;
/// Bits of virtio 1.2, sections 2.8 and 6 (linux/virtio_ring.h is not for C++).
constexpr uint64_t kAccessPlatform = 1ULL << 33;
constexpr uint64_t kPackedRings = 1ULL << 34;
constexpr uint16_t kAvailable = 1 << 7;
constexpr uint16_t kUsed = 1 << 15;
/// Of librte_vhost's index of a packed ring: the wrap counter.
constexpr uint16_t kWrap = 1 << 15;

/// A descriptor of a packed ring.
struct Descriptor {
  uint64_t address;
  uint32_t length;
  uint16_t id;
  uint16_t flags;
};
static_assert(sizeof(Descriptor) == 16);

template <typename T>
T read(const T& from) noexcept {
  return __atomic_load_n(&from, __ATOMIC_RELAXED);
}

}  // namespace

/// Tried by workers, awaited by the thread that changes a ring.
class Lookahead::Lock {
 public:
  static bool take(Ring& ring) noexcept {
    return !ring.locked.exchange(true, std::memory_order_acquire);
  }
  /// Waits. A worker that was preempted may have it, so the core is given away meanwhile.
  explicit Lock(Ring& ring) noexcept : ring_(ring) {
    while (!take(ring)) sched_yield();
  }
  Lock(Ring& ring, std::adopt_lock_t /*taken*/) noexcept : ring_(ring) {}
  ~Lock() { ring_.locked.store(false, std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Ring& ring_;
};

void Lookahead::stop() noexcept {
  if (!made_) return;
  for (uint16_t i = 0; i < kMaxVrings; ++i) {
    const Lock lock(made_[i]);
    made_[i].descriptors = nullptr;
  }
}

void Lookahead::renew(int vid) {
  stop();
  uint64_t features = 0;
  if (rte_vhost_get_negotiated_features(vid, &features) != 0) return;
  if ((features & kAccessPlatform) != 0 || (features & kPackedRings) == 0) return;
  rte_vhost_memory* table = nullptr;
  if (rte_vhost_get_mem_table(vid, &table) != 0) return;
  n_regions_ = std::min<size_t>(table->nregions, kMaxRegions);
  for (size_t i = 0; i < n_regions_; ++i) {
    const rte_vhost_mem_region& region = table->regions[i];
    regions_[i] = {region.guest_phys_addr, region.size, region.host_user_addr};
  }
  std::free(table);
  if (!made_) {
    made_ = std::make_unique<Ring[]>(kMaxVrings);
    rings_.store(made_.get(), std::memory_order_release);
  }
  const uint16_t vrings = std::min(rte_vhost_get_vring_num(vid), kMaxVrings);
  for (uint16_t i = 0; i < vrings; ++i) {
    rte_vhost_vring vring{};
    if (rte_vhost_get_vhost_vring(vid, i, &vring) != 0 || vring.desc_packed == nullptr) continue;
    const Lock lock(made_[i]);
    made_[i].size = vring.size;
    made_[i].vid = vid;
    made_[i].descriptors = vring.desc_packed;
  }
}

const uint8_t* Lookahead::here(uint64_t guest) const noexcept {
  for (size_t i = 0; i < n_regions_; ++i) {
    const uint64_t at = guest - regions_[i].guest;
    if (at < regions_[i].size) return reinterpret_cast<const uint8_t*>(regions_[i].here + at);
  }
  return nullptr;
}

void Lookahead::before_dequeue(uint16_t vring, size_t packets) noexcept {
  Ring* const rings = rings_.load(std::memory_order_acquire);
  if (rings == nullptr || vring >= kMaxVrings || !Lock::take(rings[vring])) return;
  const Ring& ring = rings[vring];
  const Lock lock(rings[vring], std::adopt_lock);
  uint16_t next = 0;
  uint16_t used = 0;
  if (ring.descriptors == nullptr || rte_vhost_get_vring_base(ring.vid, vring, &next, &used) != 0) {
    return;
  }
  const auto* const descriptors = static_cast<const Descriptor*>(ring.descriptors);
  bool wrap = (next & kWrap) != 0;
  uint32_t at = next & ~kWrap;
  if (at >= ring.size) return;
  // The lines of the descriptors themselves, all at once.
  for (size_t i = 0; i < packets && at + i < ring.size; i += kLine / sizeof(Descriptor)) {
    prefetch_to_read(&descriptors[at + i]);
  }
  for (size_t i = 0; i < packets; ++i) {
    const Descriptor& descriptor = descriptors[at];
    const uint16_t flags = read(descriptor.flags);
    if (((flags & kAvailable) != 0) != wrap || ((flags & kUsed) != 0) == wrap) return;
    if (const uint8_t* const buffer = here(read(descriptor.address))) {
      // The frame's header and begin; what follows, the processor foresees itself.
      prefetch_to_read(buffer);
      prefetch_to_read(buffer + kLine);
    }
    if (++at == ring.size) {
      at = 0;
      wrap = !wrap;
    }
  }
}

}  // namespace headrace::port::vhost
