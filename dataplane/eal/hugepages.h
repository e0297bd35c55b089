// SPDX-License-Identifier: Apache-2.0
// Hugepages: what the kernel offers in hugetlbfs, and transparent ones for the heap.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace headrace::eal {

struct HugepageMount {
  std::string path;
  uint64_t page_kb;
  uint64_t free_mb;
};

/// The first writable hugetlbfs mount of the default page size, with the memory free in it now:
/// what no mount has reserved, or what this one has (min_size). Nothing if there is none. `proc`
/// stands in for /proc in tests.
std::optional<HugepageMount> find_hugepages(const std::filesystem::path& proc = "/proc");

/// Removes the files that EAL made for `file_prefix` in a hugetlbfs mount; maps stay valid.
void unlink_hugepage_files(const std::string& mount, const std::string& file_prefix);

/// GLIBC_TUNABLES by which malloc() asks for transparent hugepages, with what it is now (null: not
/// set); nothing if it says so or the contrary already.
std::optional<std::string> heap_tunables(const char* now);

/// Lets the heap be of transparent hugepages, by running the program again with that tunable: glibc
/// reads it before main(), and mallopt() has no equivalent. To be called first in main(). Rules,
/// groups and what they point to are on the heap; with 10k of them a packet's misses in the TLB
/// cost some percent of the rate, more or less from one start to the next. Returns if it is done or
/// not wanted (the variable says otherwise); an error leaves ordinary pages.
Result<> use_hugepages_for_heap(char** argv);

}  // namespace headrace::eal
