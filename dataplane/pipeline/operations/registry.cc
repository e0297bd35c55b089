// SPDX-License-Identifier: Apache-2.0
#include "pipeline/operations/registry.h"

#include <algorithm>
#include <array>

namespace headrace::pipeline {

#define HEADRACE_OPERATION(name) extern const Operation operation_##name;
#include "pipeline/operations/operation_list.inc"
#undef HEADRACE_OPERATION

namespace {

#define HEADRACE_OPERATION(name) &operation_##name,
constexpr std::array kOperations = {
#include "pipeline/operations/operation_list.inc"
};
#undef HEADRACE_OPERATION
static_assert(kOperations.size() <= kMaxOperations);

}  // namespace

std::span<const Operation* const> operations() {
  return kOperations;
}

FoundForm find_form(uint16_t type, uint32_t experimenter, uint16_t subtype) {
  for (const Operation* operation : kOperations) {
    for (const WireForm& form : operation->forms) {
      if (form.type == type && form.experimenter == experimenter && form.subtype == subtype) {
        return {operation, &form};
      }
    }
  }
  return {};
}

Op make_op(const Operation& operation) {
  const auto* const at = std::find(kOperations.begin(), kOperations.end(), &operation);
  Op op;
  op.operation = &operation;
  op.set_slot =
      static_cast<uint8_t>(match::kFieldCount + static_cast<size_t>(at - kOperations.begin()));
  return op;
}

}  // namespace headrace::pipeline
