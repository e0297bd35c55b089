// SPDX-License-Identifier: Apache-2.0
// How Headrace's C++ reports failure outside the packet path: by value, never by exception.
//
// A function that can fail returns Result<T>. The Error has what went wrong and what to do about
// it, in words fit for an operator: it ends in an OVSDB error column, a log line or a control
// reply.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace headrace {

/// A failure in words: where, what, and the remedy.
struct Error {
  std::string message;
  std::string code = "failed";  ///< snake_case, for programs; a control reply carries it
};

template <typename T = void>
using Result = tl::expected<T, Error>;

/// Makes the failed Result: `return fail("port {}: no such device; check dpdk-devargs", name);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{fmt::format(format, std::forward<Args>(args)...)});
}

/// As fail(), with a code that a program can act on: `return fail_as("not_found", "no port {}",
/// n);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail_as(std::string code, fmt::format_string<Args...> format,
                                            Args&&... args) {
  return tl::unexpected<Error>(
      Error{fmt::format(format, std::forward<Args>(args)...), std::move(code)});
}

}  // namespace headrace
