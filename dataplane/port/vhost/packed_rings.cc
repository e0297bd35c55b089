// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/packed_rings.h"

#include <rte_memcpy.h>
#include <rte_pause.h>
#include <rte_vhost.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/prefetch.h"
#include "packet/offload.h"
#include "pipeline/terms/port_io.h"

namespace headrace::port::vhost {
namespace {

constexpr uint64_t kLine = RTE_CACHE_LINE_SIZE;
/// Bits of virtio 1.2, sections 2.8 and 6 (linux/virtio_ring.h is not for C++), and of vhost-user.
constexpr uint64_t kLogsAll = 1ULL << 26;
constexpr uint64_t kEventIndex = 1ULL << 29;
constexpr uint64_t kAccessPlatform = 1ULL << 33;
constexpr uint64_t kPackedRings = 1ULL << 34;
constexpr uint16_t kNext = 1 << 0;
constexpr uint16_t kWrite = 1 << 1;
constexpr uint16_t kIndirect = 1 << 2;
constexpr uint16_t kAvailable = 1 << 7;
constexpr uint16_t kUsed = 1 << 15;
/// Of librte_vhost's index of a packed ring: the wrap counter.
constexpr uint16_t kWrap = 1 << 15;
/// Of the driver's event suppression structure.
constexpr uint16_t kNoEvents = 1;
constexpr size_t kEventAlignment = 4;
/// Times that a worker looks again for the end of another's burst before it gives its core away.
constexpr unsigned kSpins = 1000;

/// struct virtio_net_hdr with num_buffers, which packed rings always have.
struct NetHeader {
  uint8_t flags;
  uint8_t gso_type;
  uint16_t hdr_len;
  uint16_t gso_size;
  uint16_t csum_start;
  uint16_t csum_offset;
  uint16_t num_buffers;
};
static_assert(sizeof(NetHeader) == 12);
constexpr NetHeader kNothingLeft{.flags = 0,
                                 .gso_type = 0,
                                 .hdr_len = 0,
                                 .gso_size = 0,
                                 .csum_start = 0,
                                 .csum_offset = 0,
                                 .num_buffers = 1};

/// Virtio wants it of rings; librte_vhost does not look.
bool is_aligned(const void* address, size_t octets) {
  return reinterpret_cast<uintptr_t>(address) % octets == 0;
}

template <typename T>
T read(const T& from) noexcept {
  return __atomic_load_n(&from, __ATOMIC_RELAXED);
}
template <typename T>
void write(T& to, T value) noexcept {
  __atomic_store_n(&to, value, __ATOMIC_RELAXED);
}

/// A place in a packed ring, and the wrap counter there.
struct Position {
  uint32_t at;
  bool wrap;

  explicit Position(uint16_t base) : at(base & ~kWrap), wrap((base & kWrap) != 0) {}
  [[nodiscard]] uint16_t base() const { return static_cast<uint16_t>(at | (wrap ? kWrap : 0u)); }
  void advance(uint16_t size) {
    if (++at != size) return;
    at = 0;
    wrap = !wrap;
  }
  /// Whether a descriptor with these flags is the guest's to us.
  [[nodiscard]] bool is_available(uint16_t flags) const {
    return ((flags & kAvailable) != 0) == wrap && ((flags & kUsed) != 0) != wrap;
  }
};

}  // namespace

/// A descriptor of a packed ring.
struct PackedRings::Descriptor {
  uint64_t address;
  uint32_t length;
  uint16_t id;
  uint16_t flags;
};

/// While it lives, this worker is in the ring by itself, if nobody else was there.
class PackedRings::Here {
 public:
  explicit Here(Ring& ring) noexcept : ring_(ring) {
    int32_t nobody = 0;
    // Sequentially consistent, as stop() is: either the descriptors are seen to be gone, or stop()
    // sees this worker.
    entered_ = ring_.users.compare_exchange_strong(nobody, kHere);
    if (entered_) descriptors_ = ring_.descriptors.load();
  }
  ~Here() {
    if (entered_) ring_.users.store(0, std::memory_order_release);
  }
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;
  /// Null if it is not in the ring, or may not access it.
  [[nodiscard]] Descriptor* descriptors() const noexcept { return descriptors_; }

 private:
  Ring& ring_;
  bool entered_;
  Descriptor* descriptors_{nullptr};
};

/// While it lives, this worker may send by librte_vhost.
class PackedRings::InLibrary {
 public:
  explicit InLibrary(Ring& ring) noexcept : ring_(ring) {
    unsigned spins = 0;
    int32_t users = ring_.users.load(std::memory_order_relaxed);
    while (users == kHere || !ring_.users.compare_exchange_weak(users, users + 1)) {
      if (users != kHere) continue;
      // Who is there may have been preempted.
      if (++spins % kSpins == 0) sched_yield();
      rte_pause();
      users = ring_.users.load(std::memory_order_relaxed);
    }
  }
  ~InLibrary() { ring_.users.fetch_sub(1, std::memory_order_release); }
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;

 private:
  Ring& ring_;
};

void PackedRings::stop() noexcept {
  if (!made_) return;
  for (uint16_t i = 0; i < kMaxVrings; ++i) {
    made_[i].descriptors.store(nullptr);
    while (made_[i].users.load() == kHere) sched_yield();
  }
}

void PackedRings::renew(int vid, const QueueStates& states) {
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
    if (rte_vhost_get_vhost_vring(vid, i, &vring) != 0 || vring.desc_packed == nullptr ||
        !is_aligned(vring.desc_packed, sizeof(Descriptor)) ||
        !is_guests(vring.desc_packed, uint64_t{vring.size} * sizeof(Descriptor))) {
      continue;
    }
    Ring& ring = made_[i];
    ring.size = vring.size;
    ring.vid = vid;
    // Two words, the second of which are the flags.
    const auto* const event = reinterpret_cast<const uint16_t*>(vring.driver_event);
    ring.driver_event =
        event != nullptr && is_aligned(event, kEventAlignment) ? event + 1 : nullptr;
    ring.event_index = (features & kEventIndex) != 0;
    ring.sends = (features & kLogsAll) == 0 && states.is_enabled(i) && ring.driver_event != nullptr;
    ring.descriptors.store(reinterpret_cast<Descriptor*>(vring.desc_packed));
  }
}

uint8_t* PackedRings::here(uint64_t guest, uint64_t octets) const noexcept {
  for (size_t i = 0; i < n_regions_; ++i) {
    const uint64_t at = guest - regions_[i].guest;
    if (at < regions_[i].size && octets <= regions_[i].size - at) {
      return reinterpret_cast<uint8_t*>(regions_[i].here + at);
    }
  }
  return nullptr;
}

bool PackedRings::is_guests(const void* here, uint64_t octets) const noexcept {
  const auto address = reinterpret_cast<uintptr_t>(here);
  return std::any_of(regions_.begin(), regions_.begin() + n_regions_, [&](const Region& region) {
    const uint64_t at = address - region.here;
    return at < region.size && octets <= region.size - at;
  });
}

PackedRings::Ring* PackedRings::ring_of(uint16_t vring) const noexcept {
  Ring* const rings = rings_.load(std::memory_order_acquire);
  return rings == nullptr || vring >= kMaxVrings ? nullptr : &rings[vring];
}

size_t PackedRings::to_dequeue(int vid, uint16_t vring, size_t most) noexcept {
  constexpr size_t kFewest = 2;  // one and a RARP packet
  if (!accesses(vring)) return most;
  Ring* const ring = ring_of(vring);
  const Here in_it(*ring);
  const Descriptor* const descriptors = in_it.descriptors();
  uint16_t next = 0;
  uint16_t used = 0;
  if (descriptors == nullptr || ring->vid != vid ||
      rte_vhost_get_vring_base(vid, vring, &next, &used) != 0) {
    return most;
  }
  Position place(next);
  if (place.at >= ring->size) return most;
  if (!place.is_available(read(descriptors[place.at].flags))) {
    if (++ring->empty_looks < kEmptyLooks) return 0;
    ring->empty_looks = 0;
    return std::min(kFewest, most);
  }
  // The lines of the descriptors themselves, all at once.
  for (size_t i = 0; i < most && place.at + i < ring->size; i += kLine / sizeof(Descriptor)) {
    prefetch_to_read(&descriptors[place.at + i]);
  }
  size_t there = 0;
  for (; there < most; ++there) {
    const Descriptor& descriptor = descriptors[place.at];
    if (!place.is_available(read(descriptor.flags))) break;
    if (const uint8_t* const buffer = here(read(descriptor.address), 1)) {
      // The frame's header and begin; what follows, the processor foresees itself.
      prefetch_to_read(buffer);
      prefetch_to_read(buffer + kLine);
    }
    place.advance(ring->size);
  }
  return std::min(there + 1, most);
}

uint16_t PackedRings::send_here(const Ring& ring, Descriptor* descriptors, uint16_t vring,
                                std::span<rte_mbuf*> packets) const noexcept {
  uint16_t next = 0;
  uint16_t used = 0;
  if (rte_vhost_get_vring_base(ring.vid, vring, &next, &used) != 0 || next != used) return 0;
  const Position first(next);
  if (first.at >= ring.size) return 0;
  struct Place {
    uint8_t* at;
    uint16_t id;
  };
  std::array<Place, pipeline::kBurst> places;
  for (size_t i = 0; i < packets.size() && first.at + i < ring.size;
       i += kLine / sizeof(Descriptor)) {
    prefetch_to_write(&descriptors[first.at + i]);
  }
  Position place = first;
  uint16_t count = 0;
  for (const rte_mbuf* packet : packets.first(std::min(packets.size(), places.size()))) {
    Descriptor& descriptor = descriptors[place.at];
    const uint16_t flags = __atomic_load_n(&descriptor.flags, __ATOMIC_ACQUIRE);
    if (!place.is_available(flags) || (flags & (kNext | kWrite | kIndirect)) != kWrite) break;
    if (packet->nb_segs != 1 || packet::offload_left(packet)) break;
    const uint32_t octets = sizeof(NetHeader) + packet->data_len;
    if (read(descriptor.length) < octets) break;
    uint8_t* const to = here(read(descriptor.address), octets);
    if (to == nullptr) break;
    prefetch_to_write(to);
    places[count++] = {to, read(descriptor.id)};
    place.advance(ring.size);
  }
  if (count == 0) return 0;
  for (uint16_t i = 0; i < count; ++i) {
    std::memcpy(places[i].at, &kNothingLeft, sizeof kNothingLeft);
    rte_memcpy(places[i].at + sizeof kNothingLeft, rte_pktmbuf_mtod(packets[i], const void*),
               packets[i]->data_len);
  }
  const auto used_flags = [](const Position& where) {
    return static_cast<uint16_t>(kWrite | (where.wrap ? kAvailable | kUsed : 0));
  };
  place = first;
  for (uint16_t i = 0; i < count; ++i) {
    Descriptor& descriptor = descriptors[place.at];
    write(descriptor.id, places[i].id);
    write(descriptor.length, static_cast<uint32_t>(sizeof(NetHeader) + packets[i]->data_len));
    place.advance(ring.size);
  }
  // The guest looks at the first descriptor's flags, and behind them at the others': all that was
  // written so far is to be seen then.
  std::atomic_thread_fence(std::memory_order_release);
  place = first;
  place.advance(ring.size);
  for (uint16_t i = 1; i < count; ++i) {
    write(descriptors[place.at].flags, used_flags(place));
    place.advance(ring.size);
  }
  __atomic_store_n(&descriptors[first.at].flags, used_flags(first), __ATOMIC_RELEASE);
  rte_vhost_set_vring_base(ring.vid, vring, place.base(), place.base());
  return count;
}

uint16_t PackedRings::enqueue(int vid, uint16_t vring, std::span<rte_mbuf*> packets) noexcept {
  const auto by_library = [&](std::span<rte_mbuf*> rest) {
    return rte_vhost_enqueue_burst(vid, vring, rest.data(), static_cast<uint16_t>(rest.size()));
  };
  Ring* const ring = ring_of(vring);
  if (ring == nullptr) return by_library(packets);
  uint16_t sent = 0;
  bool kick = false;
  {
    const Here in_it(*ring);
    if (in_it.descriptors() != nullptr && ring->sends && ring->vid == vid) {
      // Those that it came in with: stop() may have taken the ring's away meanwhile, and waits.
      sent = send_here(*ring, in_it.descriptors(), vring, packets);
      // The guest writes this and then looks for packets, we do it the other way round.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      kick = sent > 0 && (ring->event_index || read(*ring->driver_event) != kNoEvents);
    }
  }
  if (sent > 0) sent_here_.fetch_add(sent, std::memory_order_relaxed);
  // Not while it is in the ring: this waits for librte_vhost's lock.
  if (kick) rte_vhost_vring_call(vid, vring);
  if (sent == packets.size()) return sent;
  const InLibrary in_library(*ring);
  return static_cast<uint16_t>(sent + by_library(packets.subspan(sent)));
}

}  // namespace headrace::port::vhost
