// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/memory_change.h"

#include <rte_vhost.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "port/vhost/library_messages.h"

namespace headrace::port::vhost {
namespace {

/// Of a split ring: struct vring_avail has the flags before it.
constexpr size_t kIndex = sizeof(uint16_t);

/// The index of available chains of a split ring, and what it is when there is none.
struct Available {
  uint8_t* index;
  uint16_t none;
};

/// The change that this thread is in; `vid` is -1 in none.
struct Change {
  int vid{-1};
  std::vector<Available> rings;
};
thread_local Change change;

struct Kept {
  std::mutex mutex;
  std::map<int, std::vector<std::span<uint8_t>>> by_vid;
};
Kept& kept() {
  // Not destroyed: librte_vhost's thread may call until the process has ended.
  static auto* const all = new Kept;
  return *all;
}

void unmap_kept(int vid) {
  std::vector<std::span<uint8_t>> regions;
  {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_vid.find(vid);
    if (found == all.by_vid.end()) return;
    regions = std::move(found->second);
    all.by_vid.erase(found);
  }
  for (const std::span<uint8_t> each : regions) ::munmap(each.data(), each.size());
}

}  // namespace

void begin_memory_change(int vid) {
  change = {.vid = vid, .rings = {}};
  const uint16_t vrings = rte_vhost_get_vring_num(vid);
  for (uint16_t i = 0; i < vrings; ++i) {
    rte_vhost_vring vring{};
    uint16_t next = 0;
    uint16_t used = 0;
    // Of a packed ring the same word is the driver's event structure, which may say anything.
    if (rte_vhost_get_vhost_vring(vid, i, &vring) != 0 || vring.avail == nullptr ||
        rte_vhost_get_vring_base(vid, i, &next, &used) != 0) {
      continue;
    }
    change.rings.push_back({reinterpret_cast<uint8_t*>(vring.avail) + kIndex, next});
  }
}

void end_memory_change(int vid) {
  change = {};
  unmap_kept(vid);
}

bool has_failed_memory_change(int vid) {
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  return all.by_vid.count(vid) != 0;
}

void forget_memory_change(int vid) {
  unmap_kept(vid);
}

bool stays_mapped(void* at, size_t octets) {
  if (change.vid < 0) return false;
  const std::span<uint8_t> region(static_cast<uint8_t*>(at), octets);
  if (::mmap(at, octets, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != at) {
    log::error("vhost-user: memory of a guest cannot be replaced: {}", std::strerror(errno));
    return false;
  }
  for (const Available& ring : change.rings) {
    const bool is_here = ring.index >= region.data() && ring.index < region.data() + region.size();
    if (is_here) std::memcpy(ring.index, &ring.none, sizeof ring.none);
  }
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  all.by_vid[change.vid].push_back(region);
  return true;
}

void note_failed_mapping(int file) {
  if (change.vid < 0) return;
  const int error = errno;
  ::close(file);
  const int vid = change.vid;
  change = {};
  if (has_failed_memory_change(vid)) {
    std::array<char, PATH_MAX> path{};
    rte_vhost_get_ifname(vid, path.data(), path.size());
    log::error(
        "{}: memory that the guest shares anew cannot be mapped: {}; its connection is ended",
        path.data(), std::strerror(error));
    end_connection_of_message();
  }
  errno = error;
}

}  // namespace headrace::port::vhost
