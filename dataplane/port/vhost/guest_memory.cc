// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/guest_memory.h"

#include <rte_vhost.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace headrace::port::vhost {

namespace {

/// A guest's memory may lie on huge pages, and a part of one cannot be replaced.
constexpr std::array<uintptr_t, 2> kPageSizes = {4096, 2 << 20};

int scratch = -1;
struct sigaction usual {};
std::array<std::atomic<bool>, RTE_MAX_VHOST_DEVICE> lost{};

bool replace_page(uintptr_t address) {
  for (const uintptr_t size : kPageSizes) {
    void* page = reinterpret_cast<void*>(address & ~(size - 1));
    if (::mmap(page, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, scratch, 0) == page) {
      return true;
    }
  }
  return false;
}

/// Only what signal-safety(7) and thread-local reads allow; mmap is a bare system call.
void on_sigbus(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const int vid = guest_accessed - 1;
  // The library's thread reads rings and regions while it handles messages; whose is not known.
  const bool in_guest = vid >= 0 || is_library_thread();
  if (in_guest && info->si_code == BUS_ADRERR &&
      replace_page(reinterpret_cast<uintptr_t>(info->si_addr))) {
    if (vid >= 0) lost[static_cast<size_t>(vid)].store(true, std::memory_order_relaxed);
  } else {
    ::sigaction(SIGBUS, &usual, nullptr);  // the access is repeated, and ends as it would have
  }
  errno = error;
}

bool install() {
  scratch = ::memfd_create("vhost-scratch", MFD_CLOEXEC);
  if (scratch < 0 || ::ftruncate(scratch, kPageSizes.back()) != 0) return false;
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  return ::sigaction(SIGBUS, &action, &usual) == 0;
}

}  // namespace

bool is_library_thread() {
  std::array<char, 16> name{};  // the kernel's limit
  return ::prctl(PR_GET_NAME, name.data()) == 0 && std::strcmp(name.data(), "vhost-events") == 0;
}

void guard_guest_memory() {
  [[maybe_unused]] static const bool installed = install();
}

bool has_lost_memory(int vid) {
  return lost[static_cast<size_t>(vid)].load(std::memory_order_relaxed);
}

void forget_lost_memory(int vid) {
  lost[static_cast<size_t>(vid)].store(false, std::memory_order_relaxed);
}

}  // namespace headrace::port::vhost
