// SPDX-License-Identifier: Apache-2.0
#include "pipeline/trace/written_set.h"

#include <algorithm>

#include "pipeline/program/operation.h"

namespace headrace::pipeline {
namespace {

/// Of two actions in a set, whether the later replaces the other (section 5.10).
bool same_place(const Action& a, const Action& b) {
  if (&a.operation() != &b.operation()) return false;
  const auto* field = a.as<SetFieldAction>();
  return field == nullptr || field->field == b.as<SetFieldAction>()->field;
}

}  // namespace

ActionList written_set(const ActionList& written) {
  ActionList set;
  for (const Action& action : written) {
    std::erase_if(set, [&](const Action& other) { return same_place(other, action); });
    set.push_back(action);
  }
  std::stable_sort(set.begin(), set.end(), [](const Action& a, const Action& b) {
    return a.operation().order < b.operation().order;
  });
  if (std::any_of(set.begin(), set.end(), [](const Action& a) { return a.is<GroupAction>(); })) {
    std::erase_if(set, [](const Action& a) { return a.is<OutputAction>(); });
  }
  return set;
}

}  // namespace headrace::pipeline
