// SPDX-License-Identifier: Apache-2.0
// Copies of what comes in or leaves, for mirrors, as Open vSwitch makes them.
#pragma once

#include <memory>
#include <span>

#include "pipeline/execute/execution.h"

namespace headrace::pipeline {

struct Mirror;

/// Gives copies of a packet that comes in or leaves by the port `at` to those of `mirrors` that
/// select it and have not had it.
void mirror(Execution& x, rte_mbuf* packet, const Port& at,
            std::span<const std::shared_ptr<const Mirror>> mirrors) noexcept;
/// The same for the mirrors of what leaves by a port.
void mirror_sent(Execution& x, rte_mbuf* packet, const Port& port) noexcept;

}  // namespace headrace::pipeline
