// SPDX-License-Identifier: Apache-2.0
#include "vnf/yaml.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

namespace headrace::vnf {
namespace {

using Json = nlohmann::json;

/// The maximum nesting of a document: more than any valid configuration, less than the stack
/// allows.
constexpr int kMaxDepth = 64;

/// An error at a place in the text, counted from 1.
auto fail_at(const YAML::Mark& mark, std::string_view what) {
  return fail("line {}, column {}: {}", mark.line + 1, mark.column + 1, what);
}

template <typename Number>
std::optional<Number> number(std::string_view text, int base) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> floating(std::string_view text) {
  if (text.find_first_of("0123456789") == std::string_view::npos) return std::nullopt;
  if (text.find_first_not_of("+-.eE0123456789") != std::string_view::npos) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// YAML 1.2, 10.3.2.
Json plain(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return nullptr;
  }
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text.starts_with("0x")) {
    if (const auto value = number<uint64_t>(std::string_view(text).substr(2), 16)) return *value;
    return text;
  }
  if (const auto value = number<uint64_t>(text, 10)) return *value;
  if (const auto value = number<int64_t>(text, 10)) return *value;
  if (const auto value = floating(text)) return *value;
  return text;
}

/// RFC 3629, section 4. The parser accepts other octets, which JSON can't represent.
bool is_utf8(std::string_view text) {
  const auto octet = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = octet(i++);
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const size_t tail = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (text.size() - i < tail) return false;
    const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (octet(i) < least || octet(i) > most) return false;
    for (size_t k = 1; k < tail; ++k) {
      if ((octet(i + k) & 0xc0) != 0x80) return false;
    }
    i += tail;
  }
  return true;
}

Result<Json> convert(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth) return fail_at(node.Mark(), "nested too deeply");
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      return Json(nullptr);
    case YAML::NodeType::Scalar:
      if (!is_utf8(node.Scalar())) return fail_at(node.Mark(), "not UTF-8");
      // "!" is the tag of a scalar in quotes.
      return node.Tag() == "!" ? Json(node.Scalar()) : plain(node.Scalar());
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const auto& entry : node) {
        auto value = convert(entry, depth + 1);
        if (!value) return value;
        list.push_back(*std::move(value));
      }
      return list;
    }
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& entry : node) {
        if (!entry.first.IsScalar()) return fail_at(entry.first.Mark(), "a key that is no scalar");
        const auto& key = entry.first.Scalar();
        if (!is_utf8(key)) return fail_at(entry.first.Mark(), "not UTF-8");
        if (object.contains(key)) {
          return fail_at(entry.first.Mark(), fmt::format("'{}' is there already", key));
        }
        auto value = convert(entry.second, depth + 1);
        if (!value) return value;
        object[key] = *std::move(value);
      }
      return object;
    }
  }
  return fail_at(node.Mark(), "no value");
}

}  // namespace

Result<Json> json_of_yaml(const std::string& text) {
  try {
    return convert(YAML::Load(text), 0);
  } catch (const YAML::Exception& error) {
    return fail_at(error.mark, error.msg);
  }
}

}  // namespace headrace::vnf
