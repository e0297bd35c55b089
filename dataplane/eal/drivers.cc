// SPDX-License-Identifier: Apache-2.0
#include "eal/drivers.h"

#include <dlfcn.h>
#include <rte_build_config.h>
#include <rte_eal.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace headrace::eal {
namespace {

constexpr std::string_view kPrefix = "librte_";
constexpr std::string_view kSuffix = ".so";
constexpr std::array<std::string_view, 2> kBasic = {"bus_vdev", "mempool_ring"};

/// From where drivers are loaded one by one; empty if EAL has loaded all.
std::string& folder_in_use() {
  static std::string folder;
  return folder;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename();
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
    names.push_back(file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size()));
  }
  std::ranges::sort(names);
  return names;
}

/// Loading again what is loaded does nothing. Drivers stay: they are known to their bus.
Result<> load(const std::string& folder, std::string_view name) {
  const std::string file = fmt::format("{}/{}{}{}", folder, kPrefix, name, kSuffix);
  if (::dlopen(file.c_str(), RTLD_NOW) != nullptr) return {};
  return fail("EAL: a driver cannot be loaded: {}", ::dlerror());
}

}  // namespace

std::optional<std::string> driver_of(std::string_view device,
                                     const std::vector<std::string>& names) {
  const std::string* longest = nullptr;
  for (const std::string& name : names) {
    if (!device.starts_with(name)) continue;
    if (longest == nullptr || name.size() > longest->size()) longest = &name;
  }
  return longest == nullptr ? std::nullopt : std::optional(*longest);
}

std::optional<std::string> driver_folder() {
#ifdef RTE_EAL_PMD_PATH
  // In a program that DPDK is linked into its drivers are there, and a second EAL must not be.
  Dl_info eal{};
  if (::dladdr(reinterpret_cast<const void*>(&rte_eal_init), &eal) == 0 ||
      std::string_view(eal.dli_fname).find("librte_eal") == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string folder = RTE_EAL_PMD_PATH;
  std::error_code ignored;
  for (const std::string_view name : kBasic) {
    const std::string file = fmt::format("{}/{}{}{}", folder, kPrefix, name, kSuffix);
    if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  }
  return folder;
#else
  return std::nullopt;
#endif
}

Result<> load_basic_drivers(const std::string& folder) {
  for (const std::string_view name : kBasic) {
    if (Result<> loaded = load(folder, name); !loaded) return loaded;
  }
  folder_in_use() = folder;
  return {};
}

Result<> load_driver_for(std::string_view device) {
  std::string& folder = folder_in_use();
  if (folder.empty()) return {};
  const std::vector<std::string> names = names_in(folder);
  if (const auto driver = driver_of(device, names)) return load(folder, *driver);
  // A PCI address or an old name of a driver. As with EAL, what cannot be loaded is not there.
  for (const std::string& name : names) (void)load(folder, name);
  folder.clear();
  return {};
}

}  // namespace headrace::eal
