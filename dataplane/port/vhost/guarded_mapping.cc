// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/guarded_mapping.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "port/vhost/guest_memory.h"
#include "port/vhost/memory_change.h"

namespace headrace::port::vhost {
namespace {

using Mmap = void* (*)(void*, size_t, int, int, int, off64_t);
using Munmap = int (*)(void*, size_t);

constexpr int kNoFile = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Mmap libc_mmap() {
  static const Mmap next = reinterpret_cast<Mmap>(::dlsym(RTLD_NEXT, "mmap64"));
  return next;
}
Munmap libc_munmap() {
  static const Munmap next = reinterpret_cast<Munmap>(::dlsym(RTLD_NEXT, "munmap"));
  return next;
}

/// While there is one thread: dlsym() waits for a dlopen() of another, which may map memory itself.
[[gnu::constructor]] void find_libc() {
  libc_mmap();
  libc_munmap();
}

/// Regions and their octets with the room. Never destroyed: libraries unmap until the end.
struct Mappings {
  std::mutex mutex;
  std::unordered_map<void*, size_t> octets;
};
Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}
std::atomic<size_t> n_mappings{0};

size_t round_up(size_t octets, size_t unit) {
  return (octets + unit - 1) / unit * unit;
}

/// MAP_FAILED, with errno, if anything of it fails.
void* map_guarded(size_t octets, int protection, int flags, int file, off64_t offset) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return MAP_FAILED;
  // A file of huge pages can only be mapped at a multiple of them.
  const size_t page = std::max<size_t>(static_cast<size_t>(status.st_blksize), 4096);
  const size_t region = round_up(octets, page);
  const size_t reserved = region + kGuardOctets + page;
  void* const room = libc_mmap()(nullptr, reserved, PROT_NONE, kNoFile, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<uint8_t*>(room);
  auto* const at = begin + (round_up(reinterpret_cast<uintptr_t>(begin), page) -
                            reinterpret_cast<uintptr_t>(begin));
  uint8_t* const end = at + region + kGuardOctets;
  if (libc_mmap()(at, octets, protection, flags | MAP_FIXED, file, offset) == MAP_FAILED ||
      libc_mmap()(at + region, kGuardOctets, PROT_READ | PROT_WRITE, kNoFile | MAP_FIXED, -1, 0) ==
          MAP_FAILED) {
    const int error = errno;
    libc_munmap()(room, reserved);
    errno = error;
    return MAP_FAILED;
  }
  if (at != begin) libc_munmap()(begin, static_cast<size_t>(at - begin));
  if (end != begin + reserved) libc_munmap()(end, static_cast<size_t>(begin + reserved - end));
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.octets[at] = static_cast<size_t>(end - at);
  n_mappings.store(all.octets.size());
  return at;
}

/// The octets of a region with its room, which is going to be unmapped; 0 if there is none at `at`.
size_t forget_mapping(void* at) {
  if (n_mappings.load() == 0) return 0;
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  const auto found = all.octets.find(at);
  if (found == all.octets.end()) return 0;
  const size_t octets = found->second;
  all.octets.erase(found);
  n_mappings.store(all.octets.size());
  return octets;
}

}  // namespace

bool are_mappings_guarded() {
  return ::dlsym(RTLD_DEFAULT, "mmap64") == reinterpret_cast<void*>(&::mmap64) &&
         ::dlsym(RTLD_DEFAULT, "munmap") == reinterpret_cast<void*>(&::munmap);
}

size_t guarded_mappings() {
  return n_mappings.load();
}

}  // namespace headrace::port::vhost

extern "C" {

[[gnu::visibility("default")]] void* mmap64(void* at, size_t octets, int protection, int flags,
                                            int file, off64_t offset) noexcept {
  using namespace headrace::port::vhost;
  if (at == nullptr && file >= 0 && (flags & MAP_SHARED) != 0 && is_library_thread()) {
    void* const mapped = map_guarded(octets, protection, flags, file, offset);
    if (mapped == MAP_FAILED) note_failed_mapping(file);
    return mapped;
  }
  return libc_mmap()(at, octets, protection, flags, file, offset);
}

[[gnu::visibility("default")]] int munmap(void* at, size_t octets) noexcept {
  using namespace headrace::port::vhost;
  if (const size_t with_room = forget_mapping(at); with_room != 0) {
    if (stays_mapped(at, with_room)) return 0;
    octets = with_room;
  }
  return libc_munmap()(at, octets);
}

}  // extern "C"
