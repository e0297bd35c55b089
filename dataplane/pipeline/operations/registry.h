// SPDX-License-Identifier: Apache-2.0
// Every operation that the switch knows, found by its form on the wire or one after the other.
//
// The list itself is `operations` in pipeline/operations/meson.build: a name there is a file here,
// NAME.cc, that defines `const Operation operation_NAME`, and its test, NAME_test.cc, if there is
// one.
//
// Thread safety: immutable.
#pragma once

#include <span>

#include "pipeline/program/action_program.h"

namespace headrace::pipeline {

/// All operations, in the order of the list.
[[nodiscard]] std::span<const Operation* const> operations();

/// The operation that comes on the wire so, and the form; null: none does.
struct FoundForm {
  const Operation* operation{nullptr};
  const WireForm* form{nullptr};
};
[[nodiscard]] FoundForm find_form(uint16_t type, uint32_t experimenter = 0, uint16_t subtype = 0);

/// An op of an operation, with its slot in action sets.
[[nodiscard]] Op make_op(const Operation& operation);

}  // namespace headrace::pipeline
