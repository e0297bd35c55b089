// SPDX-License-Identifier: Apache-2.0
// Takes out of rte_eal_init() what it spends waiting and asking in vain.
//
// A VNF that ended is away until its successor forwards, and so is a graph that is deployed, so the
// time in which EAL starts counts. Of DPDK 22.11's 0.2 s, on a processor that does not tell its TSC
// frequency (most virtual ones), 0.1 s is a sleep between two readings of TSC and clock. A tenth of
// it is enough: both are read within 0.1 us of each other, which is 10 ppm of 10 ms, and the result
// is rounded to 10 MHz. Another 60 ms are 5,000 calls of access(2) for each CPU number up to
// RTE_MAX_LCORE on each possible NUMA node; the kernel says which numbers there can be at all
// ("possible" in sysfs), so those beyond are answered here. And it loads every driver that is
// installed (see drivers.h), unless their folder is not there, which is what it is told if asked.
//
// DPDK has no option for these, so this file defines nanosleep(3), access(2) and stat64(2) for the
// whole program. They do what libc's do, but for those calls, and only while a QuickStart lives.
//
// Thread safety: one QuickStart at a time. Other threads may call the functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headrace::eal {

/// The highest numbers that CPUs and NUMA nodes of this machine can have.
struct Possible {
  unsigned cpu = 0;
  unsigned node = 0;
};

/// The last number of a list such as "0-3,8" as sysfs writes it; nothing if it is none.
[[nodiscard]] std::optional<unsigned> last_of(std::string_view list);

/// Whether a path of sysfs is that of a CPU or a node which this machine cannot have.
[[nodiscard]] bool is_impossible(std::string_view path, const Possible& possible);

/// While it lives, the functions answer as said above; `hidden` is the folder that is not there
/// then, if it is not empty.
class QuickStart {
 public:
  explicit QuickStart(std::string hidden = {});
  ~QuickStart();
  QuickStart(const QuickStart&) = delete;
  QuickStart& operator=(const QuickStart&) = delete;
};

}  // namespace headrace::eal
