// SPDX-License-Identifier: Apache-2.0
#include "base/json_splitter.h"

#include <utility>

namespace headrace {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

}  // namespace

Result<> JsonSplitter::step(char c) {
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return {};
  }
  switch (c) {
    case '"':
      in_string_ = true;
      break;
    case '{':
    case '[':
      if (++depth_ > kMaxDepth) {
        return fail("a message nests deeper than {} levels", kMaxDepth);
      }
      break;
    case '}':
    case ']':
      --depth_;  // never below 0: a message starts with an opening bracket and ends at depth 0
      break;
    default:
      break;
  }
  return {};
}

Result<> JsonSplitter::feed(std::string_view bytes, std::vector<std::string>& messages) {
  for (const char c : bytes) {
    if (depth_ == 0) {
      if (is_space(c)) {
        continue;
      }
      if (c != '{') {
        return fail("a message starts with byte 0x{:02x}, not with '{{'",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      }
    }
    if (partial_.size() >= max_size_) {
      return fail("a message is larger than {} bytes", max_size_);
    }
    partial_.push_back(c);
    if (auto stepped = step(c); !stepped) {
      return stepped;
    }
    if (depth_ == 0) {
      messages.push_back(std::exchange(partial_, {}));
    }
  }
  return {};
}

}  // namespace headrace
