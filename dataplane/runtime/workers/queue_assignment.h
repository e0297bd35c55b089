// SPDX-License-Identifier: Apache-2.0
// Which worker polls which receive queue.
//
// As in OVS: a queue with an affinity (other_config:pmd-rxq-affinity) goes to the worker on that
// CPU, and a worker that has such queues gets no others, unless all workers have some. The rest is
// dealt out in turn, in the order given. A queue whose affinity names a CPU without a worker is not
// polled, as in OVS; the caller reports that to the operator.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace headrace::runtime {

/// For each queue the index of its worker; nothing if no worker may poll it. `affinities` has one
/// CPU (or none) per queue, `worker_cpus` one CPU per worker.
std::vector<std::optional<size_t>> assign_queues(
    std::span<const std::optional<unsigned>> affinities, std::span<const unsigned> worker_cpus);

}  // namespace headrace::runtime
