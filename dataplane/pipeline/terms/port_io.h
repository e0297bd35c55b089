// SPDX-License-Identifier: Apache-2.0
// What the pipeline needs from a port: bursts in, bursts out. Port kinds (port/) implement it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

namespace headrace::pipeline {

/// Packets per burst: every loop of the data path is over at most this many.
inline constexpr uint16_t kBurst = 32;

/// A port's data path. The contract:
/// * rx() and tx() are called by workers only; one queue is used by one worker at a time.
/// * rx() fills a prefix of `packets` (at most kBurst) and returns its length; the caller owns
/// them.
/// * tx() takes a prefix of `packets` and returns its length; the rest stays the caller's, who
///   drops it with the reason "tx queue full". The pipeline sends on the queue of the worker's
///   number, however many there are; runtime/workers/tx_queues.h maps it to one of the device's.
/// * Neither blocks, allocates (but for mbufs), locks or throws.
class PortIo {
 public:
  virtual ~PortIo() = default;
  virtual uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept = 0;
  virtual uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept = 0;
};

}  // namespace headrace::pipeline
