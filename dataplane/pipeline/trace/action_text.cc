// SPDX-License-Identifier: Apache-2.0
#include "pipeline/trace/action_text.h"

#include <fmt/format.h>

#include "pipeline/operations/pseudo_ports/registry.h"
#include "pipeline/program/operation.h"
#include "pipeline/trace/field_text.h"

namespace headrace::pipeline {

std::string format_port(PortNo port) {
  if (port == kPortLocal) return "LOCAL";
  if (const PseudoPort* pseudo = find_pseudo_port(port)) return std::string(pseudo->name);
  return std::to_string(port);
}

std::string format_action(const Action& action) {
  const std::string_view name = action.operation().name;
  if (const auto* output = action.as<OutputAction>()) {
    if (output->port == kPortController) return fmt::format("CONTROLLER:{}", output->max_len);
    const bool pseudo = output->port == kPortLocal || find_pseudo_port(output->port) != nullptr;
    return pseudo ? format_port(output->port) : fmt::format("output:{}", output->port);
  }
  if (const auto* group = action.as<GroupAction>()) return fmt::format("group:{}", group->group_id);
  if (const auto* queue = action.as<SetQueueAction>()) {
    return fmt::format("set_queue:{}", queue->queue_id);
  }
  if (const auto* set = action.as<SetFieldAction>()) {
    return fmt::format("set_field:{}->{}", format_value(set->field, set->value.data()),
                       info(set->field).name);
  }
  if (const auto* push = action.as<PushVlanAction>()) {
    return fmt::format("{}:0x{:04x}", name, push->ethertype);
  }
  if (const auto* push = action.as<PushMplsAction>()) {
    return fmt::format("{}:0x{:04x}", name, push->ethertype);
  }
  if (const auto* pop = action.as<PopMplsAction>()) {
    return fmt::format("{}:0x{:04x}", name, pop->ethertype);
  }
  if (const auto* push = action.as<PushPbbAction>()) {
    return fmt::format("{}:0x{:04x}", name, push->ethertype);
  }
  if (const auto* ttl = action.as<SetMplsTtlAction>()) {
    return fmt::format("{}({})", name, ttl->ttl);
  }
  if (const auto* ttl = action.as<SetNwTtlAction>()) return fmt::format("{}:{}", name, ttl->ttl);
  return std::string(name);
}

std::string format_actions(const ActionList& actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ',';
    text += format_action(action);
  }
  return text;
}

}  // namespace headrace::pipeline
