// SPDX-License-Identifier: Apache-2.0
// Every pseudo-port that outputs may name.
//
// The list itself is `pseudo_ports` in pipeline/operations/meson.build: a name there is a file
// here, NAME.cc, that defines `const PseudoPort pseudo_port_NAME`, and its test, NAME_test.cc, if
// there is one.
//
// Thread safety: immutable.
#pragma once

#include <span>

#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {

[[nodiscard]] std::span<const PseudoPort* const> pseudo_ports();

/// The pseudo-port of that number; null: there is none.
[[nodiscard]] const PseudoPort* find_pseudo_port(PortNo number);

}  // namespace headrace::pipeline
