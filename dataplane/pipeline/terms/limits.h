// SPDX-License-Identifier: Apache-2.0
// How many of a thing there may be in a process or on a packet's way.
#pragma once

#include <cstdint>

namespace headrace::pipeline {

/// Workers are numbered 0..kMaxWorkers-1; each number has its own counters in every LSI.
inline constexpr unsigned kMaxWorkers = 64;

/// Patch ports that one packet may cross before it is taken for looping.
inline constexpr unsigned kMaxPatchDepth = 16;

/// Nested groups that the executor follows.
inline constexpr unsigned kMaxGroupDepth = 8;

/// Transmit buffers that an executor has, and so ports that a process can have at once.
inline constexpr uint32_t kMaxEgress = 4096;

}  // namespace headrace::pipeline
