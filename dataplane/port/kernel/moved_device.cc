// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/moved_device.h"

#include <filesystem>
#include <fstream>

namespace headrace::port {

std::optional<MovedDevice::Place> MovedDevice::read() const {
  std::ifstream file(path_);
  Place place;
  if (!(file >> place.where.device >> place.where.inode >> place.name)) return std::nullopt;
  return place;
}

Result<> MovedDevice::write(const Place& place) const {
  std::ofstream file(path_, std::ios::trunc);
  file << place.where.device << ' ' << place.where.inode << ' ' << place.name << '\n';
  file.close();
  if (!file) return fail("{} cannot be written", path_);
  return {};
}

void MovedDevice::forget() const {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace headrace::port
