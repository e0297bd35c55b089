// SPDX-License-Identifier: Apache-2.0
// Which bucket of a select, indirect or fast-failover group a packet takes (section 5.6.1).
// `version`: of the program that the packet is run with, by which watched groups are found.
#pragma once

#include <cstdint>

#include "pipeline/program/handles.h"

namespace headrace::pipeline {

/// Of time in a group's memory: 2^29 TSC cycles, about 0.2 s.
inline constexpr unsigned kSelectTickShift = 29;

/// True if something can go out there now (section 5.6.1, fast failover).
[[nodiscard]] bool is_live(const BucketProgram& bucket, uint64_t version,
                           unsigned nesting = 0) noexcept;

/// The bucket that a select group's table, which is not empty, has for a flow, alive or not.
[[nodiscard]] inline const BucketProgram& bucket_at(const GroupProgram& group,
                                                    uint32_t hash) noexcept {
  return group.buckets[group.bucket_table[uint64_t{hash} * group.bucket_table.size() >> 32]];
}

/// That bucket if it is alive, else one that is; null if none is.
[[nodiscard]] const BucketProgram* select_bucket(const GroupProgram& group, uint64_t version,
                                                 uint32_t hash) noexcept;

/// The same of a stateful group, which remembers.
[[nodiscard]] const BucketProgram* select_stateful(const GroupProgram& group, uint64_t version,
                                                   uint64_t hash, uint32_t tick) noexcept;

/// The bucket of a select, indirect or fast-failover group that a flow goes by; null if there is
/// none, or if the group is of type all. `hash`: select_hash() of the packet; select groups only.
[[nodiscard]] const BucketProgram* choose_bucket(const GroupProgram& group, uint64_t version,
                                                 uint64_t hash, uint64_t tsc) noexcept;

}  // namespace headrace::pipeline
