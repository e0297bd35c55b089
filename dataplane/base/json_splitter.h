// SPDX-License-Identifier: Apache-2.0
// Splits a byte stream into JSON texts. JSON-RPC over a stream (RFC 7047, section 4) has neither
// lengths nor separators between messages: a message ends where its object closes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headrace {

/// Incremental and bounded: holds at most one incomplete message of at most `max_size` bytes. It
/// only counts brackets and skips strings; the parser decides whether a message is valid JSON.
class JsonSplitter {
 public:
  /// The maximum nesting; the schema of Open vSwitch needs 12.
  static constexpr unsigned kMaxDepth = 64;

  explicit JsonSplitter(size_t max_size = size_t{64} << 20) : max_size_(max_size) {}

  /// Processes the next bytes of the stream and appends each completed message to `messages`. Fails
  /// on a byte that can't start an object, a message too large, or one nested too deep; after a
  /// failure the stream is unusable.
  Result<> feed(std::string_view bytes, std::vector<std::string>& messages);

 private:
  Result<> step(char c);

  size_t max_size_;
  std::string partial_;
  unsigned depth_{0};
  bool in_string_{false};
  bool escaped_{false};
};

}  // namespace headrace
