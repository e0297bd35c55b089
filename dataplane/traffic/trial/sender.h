// SPDX-License-Identifier: Apache-2.0
// The sending side of one stream.
//
// pump() sends what is due: at most kBurst packets with the times that the schedule meant for them.
// At low rates that is one packet at its time; at high rates as many as became due since the last
// round. What the device refuses stays due and is made anew at the next pump(), until it is later
// than the bound; then it is unsent. Sequence numbers count sent packets only, so a gap at the
// receiver is a loss on the way.
//
// Without a rate (unpaced) a burst is sent at each pump(); packets mean to leave when they are
// made, and a refusal costs nothing.
//
// Thread safety: one worker pumps; counters and histogram may be read by others.
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

  /// Sends `stream`, known as `number` in its signatures, to `port`. Both must outlive the sender.
  Sender(const Stream& stream, uint16_t number, const TrafficPort& port)
      : frames_(stream.frames),
        pattern_(stream.sizes.pattern),
        order_(stream.order),
        replay_(stream.replay.get()),
        turns_(replay_          ? replay_->packets()
               : order_.empty() ? frames_.flows()
                                : static_cast<uint32_t>(order_.size())),
        number_(number),
        port_(port) {}

  /// Begins a run with a schedule (Pacer::start). `late_bound` in cycles.
  void start(uint8_t run, const Pacer& schedule, uint64_t late_bound);
  /// Begins a run without one, of at most `packets`.
  void start_unpaced(uint8_t run, uint64_t packets);
  /// No packet is meant for after `now`.
  void stop(uint64_t now) {
    pacer_.stop(now);
    unpaced_left_ = 0;
  }

  /// Sends what is due at `now` (TSC). Returns how many packets the device took.
  unsigned pump(uint64_t now) noexcept;
  /// Nothing is left to send.
  [[nodiscard]] bool done() const { return unpaced_left_ == 0 && pacer_.done(); }

  [[nodiscard]] uint64_t sent() const { return sent_.read(); }
  [[nodiscard]] uint64_t unsent() const { return unsent_.read(); }
  /// How much later than meant packets were handed to the device, in cycles.
  [[nodiscard]] const Histogram& lateness() const { return lateness_; }

 private:
  /// Which packet comes next.
  struct Cursor {
    uint32_t sequence;
    uint32_t turn;  ///< index into the order of flows, or packet of the replay
    uint32_t size;  ///< index into the pattern
  };
  void advance(Cursor& cursor) const noexcept {
    ++cursor.sequence;
    if (++cursor.size == pattern_.size()) cursor.size = 0;
    if (++cursor.turn == turns_) {
      cursor.turn = 0;
      // Or a flow count with a factor in common with the pattern's length would give some flows
      // only some of the sizes.
      if (++cursor.size == pattern_.size()) cursor.size = 0;
    }
  }
  void reset(uint8_t run);
  /// Makes the packet at `cursor`, all of it; returns its length.
  uint16_t make(uint8_t* frame, const Cursor& cursor, uint64_t meant) const noexcept;
  unsigned send(uint64_t now, unsigned count) noexcept;

  const FrameSet& frames_;
  const std::vector<uint8_t>& pattern_;
  const std::vector<uint32_t>& order_;
  const Replay* replay_;  ///< instead of frames_, or null
  uint32_t turns_;
  uint16_t number_;
  const TrafficPort& port_;
  uint8_t run_{0};
  uint64_t unpaced_left_{0};  ///< packets still to send without a schedule
  uint64_t late_bound_{0};
  Pacer pacer_;
  Cursor cursor_{};
  Counter sent_;
  Counter unsent_;
  Histogram lateness_;
};

}  // namespace headrace::traffic
