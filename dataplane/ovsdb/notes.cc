// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace headrace::ovsdb {

std::string joined(const Notes& notes) {
  return fmt::format("{}", fmt::join(notes, "; "));
}

void note_other_config(const StringMap& config, std::vector<std::string_view> supported,
                       std::string_view place, Notes& notes) {
  for (const auto& [key, value] : config) {
    if (std::find(supported.begin(), supported.end(), key) == supported.end()) {
      notes.push_back(fmt::format("{}other_config:{} is not supported; remove it", place, key));
    }
  }
}

}  // namespace headrace::ovsdb
