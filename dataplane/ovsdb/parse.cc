// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/parse.h"

#include <algorithm>
#include <charconv>

namespace headrace::ovsdb {
namespace {

std::string_view without_0x(std::string_view text) {
  return text.starts_with("0x") || text.starts_with("0X") ? text.substr(2) : text;
}

}  // namespace

std::optional<uint64_t> parse_unsigned(std::string_view text, int base) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.begin(), text.end(), value, base);
  if (code != std::errc{} || end != text.end()) {
    return std::nullopt;
  }
  return value;
}

Result<uint64_t> parse_datapath_id(std::string_view text) {
  const auto digits = without_0x(text);
  const auto value = parse_unsigned(digits, 16);
  if (!value || digits.size() > 16 || *value == 0) {
    return fail("datapath-id '{}' is not 1 to 16 hexadecimal digits other than zero", text);
  }
  return *value;
}

Result<std::vector<unsigned>> parse_cpu_mask(std::string_view text) {
  const auto digits = without_0x(text);
  std::vector<unsigned> cpus;
  unsigned bit = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, bit += 4) {
    const auto value = parse_unsigned(std::string_view(&*digit, 1), 16);
    if (!value) {
      return fail("pmd-cpu-mask '{}' is not hexadecimal", text);
    }
    for (unsigned i = 0; i < 4; ++i) {
      if ((*value >> i & 1) != 0) {
        cpus.push_back(bit + i);
      }
    }
  }
  if (cpus.empty()) {
    return fail("pmd-cpu-mask '{}' names no CPU", text);
  }
  return cpus;
}

Result<std::map<uint16_t, unsigned>> parse_rxq_affinity(std::string_view text) {
  std::map<uint16_t, unsigned> affinity;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const auto colon = item.find(':');
    if (colon == std::string_view::npos) {
      return fail("pmd-rxq-affinity '{}' is not queue:cpu", item);
    }
    const auto queue = parse_unsigned(item.substr(0, colon));
    const auto cpu = parse_unsigned(item.substr(colon + 1));
    if (!queue || *queue > UINT16_MAX || !cpu || *cpu > UINT16_MAX) {
      return fail("pmd-rxq-affinity '{}' is not queue:cpu", item);
    }
    if (!affinity.emplace(static_cast<uint16_t>(*queue), static_cast<unsigned>(*cpu)).second) {
      return fail("pmd-rxq-affinity names queue {} twice", *queue);
    }
  }
  return affinity;
}

}  // namespace headrace::ovsdb
