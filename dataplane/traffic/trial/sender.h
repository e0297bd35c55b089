// SPDX-License-Identifier: Apache-2.0
// The sending side of one stream.
//
// pump() sends due packets, at most kBurst, each with its scheduled time in the signature. At low
// rates that is one packet at its time; at high rates as many as became due since the last round.
// Packets that the device does not accept remain due and are made again at the next pump(), until
// they are later than the bound; then they count as unsent. Sequence numbers count sent packets
// only, so a gap at the receiver is a loss on the path.
//
// Without a rate (unpaced) each pump() sends a burst; the intended time is that of the call, and
// packets not accepted have no effect.
//
// Thread safety: one worker calls pump(); any thread may read counters and histogram.
#pragma once

#include <cstdint>

#include "base/counter.h"
#include "traffic/frames/frame_set.h"
#include "traffic/frames/stream.h"
#include "traffic/measure/histogram.h"
#include "traffic/ports/traffic_port.h"
#include "traffic/trial/pacer.h"

namespace headrace::traffic {

class Sender {
 public:
  static constexpr uint16_t kBurst = 32;

  /// Sends `stream`, with `number` in its signatures, to `port`. Both must outlive the sender.
  Sender(const Stream& stream, uint16_t number, const TrafficPort& port)
      : frames_(stream.frames),
        pattern_(stream.sizes.pattern),
        order_(stream.order),
        replay_(stream.replay.get()),
        order_length_(replay_          ? replay_->packets()
                      : order_.empty() ? frames_.flows()
                                       : static_cast<uint32_t>(order_.size())),
        number_(number),
        port_(port) {}

  /// Begins a run with a schedule (Pacer::start). `late_bound` in cycles.
  void start(uint8_t run, const Pacer& schedule, uint64_t late_bound);
  /// Begins an unpaced run of at most `packets`.
  void start_unpaced(uint8_t run, uint64_t packets);
  /// Whether packets have no signature from now on, and lateness is not recorded.
  void set_bare(bool bare) { bare_ = bare; }
  /// Ends the schedule at `now`.
  void stop(uint64_t now) {
    pacer_.stop(now);
    unpaced_left_ = 0;
  }

  /// Sends the packets due at `now` (TSC). Returns how many the device accepted.
  unsigned pump(uint64_t now) noexcept;
  /// Whether nothing is left to send.
  [[nodiscard]] bool done() const { return unpaced_left_ == 0 && pacer_.done(); }

  [[nodiscard]] uint64_t sent() const { return sent_.read(); }
  [[nodiscard]] uint64_t unsent() const { return unsent_.read(); }
  /// Calls of the device's transmit function, those with kBurst packets, and the packets that it
  /// did not take (which are tried again).
  [[nodiscard]] uint64_t bursts() const { return bursts_.read(); }
  [[nodiscard]] uint64_t full_bursts() const { return full_bursts_.read(); }
  [[nodiscard]] uint64_t refused() const { return refused_.read(); }
  /// How long after their intended time packets were passed to the device, in cycles.
  [[nodiscard]] const Histogram& lateness() const { return lateness_; }

 private:
  /// The next packet.
  struct Cursor {
    uint32_t sequence;
    uint32_t position;  ///< index into the order of flows, or packet of the replay
    uint32_t size;      ///< index into the pattern
  };
  void advance(Cursor& cursor) const noexcept {
    ++cursor.sequence;
    if (++cursor.size == pattern_.size()) cursor.size = 0;
    if (++cursor.position == order_length_) {
      cursor.position = 0;
      // Otherwise, if the flow count and the pattern's length had a common factor, some flows would
      // never have some of the sizes.
      if (++cursor.size == pattern_.size()) cursor.size = 0;
    }
  }
  void reset(uint8_t run);
  /// Makes the whole packet at `cursor`; returns its length.
  uint16_t make(uint8_t* frame, const Cursor& cursor, uint64_t meant) const noexcept;
  unsigned send(uint64_t now, unsigned count) noexcept;

  const FrameSet& frames_;
  const std::vector<uint8_t>& pattern_;
  const std::vector<uint32_t>& order_;
  const Replay* replay_;  ///< instead of frames_, or null
  uint32_t order_length_;
  uint16_t number_;
  const TrafficPort& port_;
  uint8_t run_{0};
  uint64_t unpaced_left_{0};  ///< packets still to send without a schedule
  uint64_t late_bound_{0};
  bool bare_{false};
  Pacer pacer_;
  Cursor cursor_{};
  Counter sent_;
  Counter unsent_;
  Counter bursts_;
  Counter full_bursts_;
  Counter refused_;
  Histogram lateness_;
};

}  // namespace headrace::traffic
