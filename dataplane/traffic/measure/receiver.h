// SPDX-License-Identifier: Apache-2.0
// The receiving side of all streams: reads each packet's signature, determines which stream, run
// and number it is, and how old.
//
// What counts as what, per stream:
// * received: unique packets of the run at the stream's rx port (unique: see sequence.h).
// * duplicated: further copies there. * reordered: see sequence.h; these are also received.
// * misdelivered: arrivals at any other port, copies included. They are not received.
// * latency: of received packets, from the time meant to the time of the poll that brought them.
// And for all streams together: foreign (no signature) and stale (of another run than this one or
// its warm-up).
//
// Of several workers each has a receiver for the ports that it polls; a stream's arrivals are
// written by the one that polls the stream's rx port.
//
// Thread safety: one worker calls start() and take(); counters and histograms may be read by
// others.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.h"
#include "traffic/frames/signature.h"
#include "traffic/measure/histogram.h"
#include "traffic/measure/sequence.h"

namespace headrace::traffic {

/// What came of one stream.
struct Arrivals {
  uint16_t rx_port{0};  ///< where it is expected: a port's number
  Counter received;
  Counter duplicated;
  Counter reordered;
  Counter
      ancient;  ///< too late to distinguish a late packet from a duplicate; neither of the above
  Histogram latency;
  SequenceTracker sequence;
};

class Receiver {
 public:
  /// `streams`: of all receivers together, by stream number. `ports`: the numbers of those that
  /// this one gets bursts from.
  Receiver(std::span<const std::unique_ptr<Arrivals>> streams, std::span<const uint16_t> ports);

  /// Begins to count `run`, from nothing, for the streams expected at its ports; arrivals of
  /// `warmup` are freed silently from then on.
  void start(uint8_t run, uint8_t warmup);

  /// Takes a burst that came from `port` at `now` (TSC), and frees it.
  void take(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now) noexcept;

  /// Arrivals of a stream at the ports of this receiver that aren't the stream's own.
  [[nodiscard]] uint64_t misdelivered(size_t number) const { return misdelivered_[number].read(); }
  [[nodiscard]] uint64_t foreign() const { return foreign_.read(); }
  [[nodiscard]] uint64_t stale() const { return stale_.read(); }

 private:
  void take_one(uint16_t port, const rte_mbuf* packet, uint64_t now) noexcept;

  std::vector<Arrivals*> streams_;
  std::vector<uint16_t> ports_;
  std::vector<Counter> misdelivered_;  ///< by stream
  uint8_t run_{0};
  uint8_t warmup_{0};
  Counter foreign_;
  Counter stale_;
};

}  // namespace headrace::traffic
