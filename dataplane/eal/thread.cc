// SPDX-License-Identifier: Apache-2.0
#include "eal/thread.h"

#include <pthread.h>
#include <rte_lcore.h>
#include <sched.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

namespace headrace::eal {

Result<> pin_this_thread(uint32_t cpu) {
  if (cpu >= CPU_SETSIZE) return fail("CPU {}: there is no such CPU", cpu);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set); error != 0) {
    return fail("CPU {}: cannot run there: {}", cpu, std::strerror(error));
  }
  return {};
}

bool is_cpu_usable(uint32_t cpu) {
  bool usable = false;
  std::thread([&] { usable = pin_this_thread(cpu).has_value(); }).join();
  return usable;
}

std::optional<int> numa_node_of(uint32_t cpu) {
  // The kernel has a link to the node in the CPU's directory.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           fmt::format("/sys/devices/system/cpu/cpu{}", cpu), error)) {
    const std::string name = entry.path().filename().string();
    int node = 0;
    if (!name.starts_with("node")) continue;
    const auto [end, failed] = std::from_chars(name.data() + 4, name.data() + name.size(), node);
    if (failed == std::errc{} && end == name.data() + name.size()) return node;
  }
  return std::nullopt;
}

void name_this_thread(const char* name) {
  char short_name[16];
  std::strncpy(short_name, name, sizeof short_name - 1);
  short_name[sizeof short_name - 1] = '\0';
  ::pthread_setname_np(::pthread_self(), short_name);
}

DpdkThread::DpdkThread() : registered_(rte_thread_register() == 0) {}

DpdkThread::~DpdkThread() {
  if (registered_) rte_thread_unregister();
}

}  // namespace headrace::eal
