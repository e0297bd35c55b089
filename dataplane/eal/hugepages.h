// SPDX-License-Identifier: Apache-2.0
// What the kernel offers in hugepages: where hugetlbfs is mounted and how much of it is free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace headrace::eal {

struct HugepageMount {
  std::string path;
  uint64_t page_kb;
  uint64_t free_mb;
};

/// The first writable hugetlbfs mount of the default page size, with the memory free in it now;
/// nothing if there is none. `proc` stands in for /proc in tests.
std::optional<HugepageMount> find_hugepages(const std::filesystem::path& proc = "/proc");

/// Removes the files that EAL made for `file_prefix` in a hugetlbfs mount; maps stay valid.
void unlink_hugepage_files(const std::string& mount, const std::string& file_prefix);

}  // namespace headrace::eal
