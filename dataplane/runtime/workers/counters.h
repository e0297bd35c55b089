// SPDX-License-Identifier: Apache-2.0
// What a worker counts about itself and its receive queues, for the control thread to read.
//
// What a queue costs is sampled, since time stamps at every queue would cost more than many polls
// do: in one round of kSampledRounds the worker takes the time at each queue that brings something,
// and adds it so many times. Over a second of load that is thousands of samples.
#pragma once

#include <rte_common.h>

#include "base/counter.h"

namespace headrace::runtime {

/// What a worker spends its time on, in TSC cycles; a round polls every queue of the worker.
/// Cycles of rounds in which something arrived are busy, those of other rounds (and sleep) idle.
struct alignas(RTE_CACHE_LINE_SIZE) WorkerCounters {
  Counter busy_cycles;
  Counter idle_cycles;
  Counter sleep_cycles;  ///< the part of idle_cycles spent asleep
  Counter rounds;
  Counter busy_rounds;
  Counter packets;      ///< received from ports; what crosses patch ports counts once
  Counter packet_outs;  ///< run for the controller
  // Only while stage timing is on:
  Counter staged_packets;   ///< received meanwhile
  Counter receive_cycles;   ///< in rx(), polls that found nothing not counted
  Counter pipeline_cycles;  ///< parsing, tables, actions
  Counter transmit_cycles;  ///< flushing the transmit buffers
};

/// One of so many rounds is timed by queue.
inline constexpr unsigned kSampledRounds = 64;

/// What one receive queue brought; written by the worker that polls it.
struct alignas(RTE_CACHE_LINE_SIZE) QueueCounters {
  Counter packets;
  Counter bursts;       ///< polls that brought something
  Counter full_bursts;  ///< of those, with kBurst packets: more was waiting
  Counter cycles;  ///< TSC, of polls that brought something with all that became of it; sampled
};

}  // namespace headrace::runtime
