// SPDX-License-Identifier: Apache-2.0
// The first stage: a burst comes into an LSI, is looked at by what its port or LSI asks for, and is
// extracted.
//
// A receive feature is something done with packets before the tables see them. Each has a bit
// (ReceiveFeatureBit, program/receive_feature.h); the LSI's program and the port say by a set of
// bits which they want, so a burst without any costs one test. The features run in the order of
// their list, which stands in receive_features.cc.
#pragma once

#include <span>

#include "pipeline/execute/execution.h"

namespace headrace::pipeline {

class Defragmenter;

/// Makes a burst of `in_port` the one at work, without packets yet. `parse_depth`: how deep its
/// packets are to be parsed.
void begin_burst(Execution& x, const LsiProgram& program, const Port* in_port, PortNo number,
                 unsigned depth, packet::Depth parse_depth) noexcept;

/// Takes packets that come in by a port (`arrived`), or that a packet-out sends to the tables, to
/// the first table. False: none is left.
[[nodiscard]] bool receive(Execution& x, const LsiProgram& program, const Port* in_port,
                           PortNo number, unsigned depth, std::span<rte_mbuf*> packets,
                           bool arrived) noexcept;

/// Leaves the whole packets in front; how many they are.
[[nodiscard]] size_t reassemble(Execution& x, Defragmenter& defragmenter,
                                std::span<rte_mbuf*> fragments) noexcept;

}  // namespace headrace::pipeline
