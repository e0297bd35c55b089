// SPDX-License-Identifier: Apache-2.0
#include "eal/hugepages.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

namespace headrace::eal {

std::optional<HugepageMount> find_hugepages(const std::filesystem::path& proc) {
  std::ifstream meminfo(proc / "meminfo");
  uint64_t free_pages = 0;
  uint64_t reserved_pages = 0;
  uint64_t page_kb = 0;
  for (std::string line; std::getline(meminfo, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    words >> name >> value;
    if (name == "HugePages_Free:") free_pages = value;
    if (name == "HugePages_Rsvd:") reserved_pages = value;
    if (name == "Hugepagesize:") page_kb = value;
  }
  if (page_kb == 0) return std::nullopt;

  std::ifstream mounts(proc / "mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string device, path, type, flags;
    words >> device >> path >> type >> flags;
    if (type != "hugetlbfs" || ::access(path.c_str(), W_OK) != 0) continue;
    const size_t size = flags.find("pagesize=");
    if (size != std::string::npos) {
      // pagesize=2M, 1024M or 1G
      size_t digits = 0;
      uint64_t kb = std::stoull(flags.substr(size + 9), &digits);
      switch (flags[size + 9 + digits]) {
        case 'G':
          kb *= 1024 * 1024;
          break;
        case 'M':
          kb *= 1024;
          break;
        default:
          break;
      }
      if (kb != page_kb) continue;
    }
    uint64_t own_mb = 0;
    const size_t reserved = flags.find("min_size=");
    if (reserved != std::string::npos) own_mb = std::stoull(flags.substr(reserved + 9)) >> 20;
    const uint64_t others = free_pages - std::min(free_pages, reserved_pages);
    return HugepageMount{path, page_kb, std::max(own_mb, others * page_kb / 1024)};
  }
  return std::nullopt;
}

void unlink_hugepage_files(const std::string& mount, const std::string& file_prefix) {
  const std::string start = file_prefix + "map_";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(mount, error)) {
    if (entry.path().filename().string().starts_with(start)) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

std::optional<std::string> heap_tunables(const char* now) {
  constexpr std::string_view kName = "glibc.malloc.hugetlb=";
  std::string tunables = now == nullptr ? "" : now;
  if (tunables.find(kName) != std::string::npos) return std::nullopt;
  if (!tunables.empty()) tunables += ':';
  return tunables.append(kName).append("1");
}

Result<> use_hugepages_for_heap(char** argv) {
  constexpr const char* kVariable = "GLIBC_TUNABLES";
  if (::getauxval(AT_SECURE) != 0) return {};  // glibc would ignore it, and this would never end
  const std::optional<std::string> tunables = heap_tunables(std::getenv(kVariable));
  if (!tunables) return {};
  std::error_code error;
  // Its path, not /proc/self/exe: that would be the name of the process.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail("no hugepages for the heap: /proc/self/exe: {}", error.message());
  if (::setenv(kVariable, tunables->c_str(), 1) == 0) ::execv(program.c_str(), argv);
  const int reason = errno;
  return fail("no hugepages for the heap: {}: {}", program.string(), std::strerror(reason));
}

}  // namespace headrace::eal
