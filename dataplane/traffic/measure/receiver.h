// SPDX-License-Identifier: Apache-2.0
// The receiving side of all streams: reads each packet's signature, tells which stream, run and
// number it is, and how old.
//
// What counts as what, per stream:
// * received: unique packets of the run at the stream's rx port (sequence.h says what unique is).
// * duplicated: further copies there. * reordered: see sequence.h; these are also received.
// * misdelivered: arrivals at any other port, copies included. They are not received.
// * latency: of received packets, from the time meant to the time of the poll that brought them.
// And for all streams together: foreign (no signature) and stale (of another run than this one or
// its warm-up).
//
// Thread safety: one worker calls take(); counters and histograms may be read by others.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "traffic/frames/signature.h"
#include "traffic/measure/counter.h"
#include "traffic/measure/histogram.h"
#include "traffic/measure/sequence.h"

namespace headrace::traffic {

/// What came of one stream.
struct Arrivals {
  uint16_t rx_port{0};  ///< where it is expected: an ethdev
  Counter received;
  Counter duplicated;
  Counter reordered;
  Counter misdelivered;
  Counter ancient;  ///< too late to tell a late packet from a copy; neither of the above
  Histogram latency;
  SequenceTracker sequence;
};

class Receiver {
 public:
  /// `rx_ports`: the ethdev at which each stream is expected, by stream number.
  explicit Receiver(std::span<const uint16_t> rx_ports);

  /// Begins to count `run`; arrivals of `warmup` are freed silently from then on.
  void start(uint8_t run, uint8_t warmup);

  /// Takes a burst that came from ethdev `port` at `now` (TSC), and frees it.
  void take(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now) noexcept;

  [[nodiscard]] const Arrivals& stream(size_t number) const { return *streams_[number]; }
  [[nodiscard]] uint64_t foreign() const { return foreign_.get(); }
  [[nodiscard]] uint64_t stale() const { return stale_.get(); }

 private:
  void take_one(uint16_t port, const rte_mbuf* packet, uint64_t now) noexcept;

  std::vector<std::unique_ptr<Arrivals>> streams_;
  uint8_t run_{0};
  uint8_t warmup_{0};
  Counter foreign_;
  Counter stale_;
};

}  // namespace headrace::traffic
