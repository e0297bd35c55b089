// SPDX-License-Identifier: Apache-2.0
// The receiving side of all streams: reads each packet's signature, which gives its stream, run,
// sequence number and age.
//
// Counters per stream:
// * received: unique packets of the run at the stream's rx port (unique: see sequence.h).
// * duplicated: further copies at that port. * reordered: see sequence.h; these are also received.
// * misdelivered: arrivals at any other port, copies included. They are not received.
// * latency: of received packets, from the intended send time to the poll that received them.
// For all streams together: foreign (no signature) and stale (neither of this run nor of its
// warm-up).
//
// Each worker has a receiver for the ports that it polls; a stream's arrivals are written by the
// worker that polls the stream's rx port.
//
// Thread safety: one worker calls start() and process(); any thread may read counters and
// histograms.
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

/// What was received of one stream.
struct Arrivals {
  uint16_t rx_port{0};  ///< number of the port where it is expected
  Counter received;
  Counter duplicated;
  Counter reordered;
  Counter ancient;  ///< too late to tell a late packet from a duplicate; neither of the above
  Histogram latency;
  SequenceTracker sequence;
};

class Receiver {
 public:
  /// `streams`: those of all receivers, by stream number. `ports`: the numbers of the ports that
  /// this receiver processes.
  Receiver(std::span<const std::unique_ptr<Arrivals>> streams, std::span<const uint16_t> ports);

  /// Resets the counters of the streams expected at its ports and counts `run` from now on; packets
  /// of `warmup` are freed without being counted. With `bare` packets have no signature: whatever
  /// comes to a port is received of the stream that is expected there (one stream a port).
  void start(uint8_t run, uint8_t warmup, bool bare = false);

  /// Counts and frees a burst received on `port` at `now` (TSC).
  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now) noexcept;

  /// Arrivals of a stream at ports of this receiver other than the stream's rx port.
  [[nodiscard]] uint64_t misdelivered(size_t number) const { return misdelivered_[number].read(); }
  [[nodiscard]] uint64_t foreign() const { return foreign_.read(); }
  [[nodiscard]] uint64_t stale() const { return stale_.read(); }

 private:
  void count_bare(uint16_t port, size_t packets) noexcept;
  void process_one(uint16_t port, const rte_mbuf* packet, uint64_t now) noexcept;

  std::vector<Arrivals*> streams_;
  std::vector<uint16_t> ports_;
  std::vector<Counter> misdelivered_;  ///< by stream
  uint8_t run_{0};
  uint8_t warmup_{0};
  bool bare_{false};
  Counter foreign_;
  Counter stale_;
};

}  // namespace headrace::traffic
