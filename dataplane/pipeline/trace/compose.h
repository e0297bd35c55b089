// SPDX-License-Identifier: Apache-2.0
// A packet that has given fields.
#pragma once

#include "base/result.h"
#include "pipeline/trace/flow_parser.h"

struct rte_mbuf;

namespace headrace::pipeline {

/// Fills an empty mbuf with the shortest packet that has the fields, checksums right; fields that
/// are not named are zero, but for a TTL of 64. Fails if a field has no place in such a packet.
/// What is no part of a packet (in_port, metadata, tunnel fields) is left to the caller.
Result<> compose(const FlowText& flow, rte_mbuf* packet);

}  // namespace headrace::pipeline
