// SPDX-License-Identifier: Apache-2.0
#include "pipeline/operations/pseudo_ports/registry.h"

#include <array>

namespace headrace::pipeline {

#define HEADRACE_PSEUDO_PORT(name) extern const PseudoPort pseudo_port_##name;
#include "pipeline/operations/pseudo_port_list.inc"
#undef HEADRACE_PSEUDO_PORT

namespace {

#define HEADRACE_PSEUDO_PORT(name) &pseudo_port_##name,
constexpr std::array kPseudoPorts = {
#include "pipeline/operations/pseudo_port_list.inc"
};
#undef HEADRACE_PSEUDO_PORT

}  // namespace

std::span<const PseudoPort* const> pseudo_ports() {
  return kPseudoPorts;
}

const PseudoPort* find_pseudo_port(PortNo number) {
  for (const PseudoPort* each : kPseudoPorts) {
    if (each->number == number) return each;
  }
  return nullptr;
}

}  // namespace headrace::pipeline
