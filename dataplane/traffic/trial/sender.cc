// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/sender.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>

namespace headrace::traffic {

void Sender::reset(uint8_t run) {
  run_ = run;
  cursor_ = {};
  sent_.set(0);
  for (Counter* counter : {&unsent_, &bursts_, &full_bursts_, &refused_}) counter->set(0);
  lateness_.clear();
}

void Sender::start(uint8_t run, const Pacer& schedule, uint64_t late_bound) {
  reset(run);
  pacer_ = schedule;
  late_bound_ = late_bound;
  unpaced_left_ = 0;
}

void Sender::start_unpaced(uint8_t run, uint64_t packets) {
  reset(run);
  pacer_ = Pacer{};
  unpaced_left_ = packets;
}

unsigned Sender::pump(uint64_t now) noexcept {
  if (unpaced_left_ != 0) {
    const unsigned sent =
        send(now, static_cast<unsigned>(std::min<uint64_t>(kBurst, unpaced_left_)));
    unpaced_left_ -= sent;
    return sent;
  }
  if (now > late_bound_) {
    if (const uint64_t given_up = pacer_.skip_before(now - late_bound_); given_up != 0) {
      unsent_.add(given_up);
    }
  }
  if (!pacer_.due(now)) return 0;
  Pacer ahead = pacer_;
  unsigned count = 0;
  for (; count < kBurst && ahead.due(now); ++count) ahead.advance();
  return send(now, count);
}

inline uint16_t Sender::make(uint8_t* frame, const Cursor& cursor, uint64_t meant) const noexcept {
  const Signature signature{
      .stream = number_, .sequence = cursor.sequence, .time = meant, .run = run_};
  if (replay_ != nullptr) {
    const uint16_t length = replay_->write(frame, cursor.position);
    if (bare_) return length;
    signature.write(frame + length - Signature::kBytes);
    replay_->finish(frame, cursor.position);
    return length;
  }
  const unsigned size = pattern_[cursor.size];
  const uint32_t flow = order_.empty() ? cursor.position : order_[cursor.position];
  const uint16_t length = frames_.write(frame, size, flow);
  if (frames_.needs_finish()) frames_.clear_payload(frame, size);
  if (!bare_) signature.write(frame + length - Signature::kBytes);
  if (frames_.needs_finish()) frames_.finish(frame, size);
  return length;
}

unsigned Sender::send(uint64_t now, unsigned count) noexcept {
  std::array<rte_mbuf*, kBurst> packets;
  std::array<uint64_t, kBurst> meant;
  // No free buffers: all are in the device's queues. The packets remain due.
  if (rte_pktmbuf_alloc_bulk(port_.pool(), packets.data(), count) != 0) return 0;
  const bool unpaced = unpaced_left_ != 0;
  Cursor cursor = cursor_;
  Pacer pacer = pacer_;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* const packet = packets[i];
    auto* const frame = rte_pktmbuf_mtod(packet, uint8_t*);
    meant[i] = unpaced ? now : pacer.next();
    const uint16_t length = make(frame, cursor, meant[i]);
    packet->data_len = length;
    packet->pkt_len = length;
    advance(cursor);
    pacer.advance();
  }
  const uint64_t handed = rte_rdtsc();
  const uint16_t sent = port_.send(std::span(packets.data(), count));
  bursts_.add(1);
  if (count == kBurst) full_bursts_.add(1);
  refused_.add(count - sent);
  for (unsigned i = 0; i < sent && !bare_; ++i) lateness_.record(handed - meant[i]);
  if (sent == count) {
    cursor_ = cursor;
    pacer_ = pacer;
  } else {
    for (unsigned i = 0; i < sent; ++i) {
      advance(cursor_);
      pacer_.advance();
    }
    rte_pktmbuf_free_bulk(&packets[sent], count - sent);
  }
  sent_.add(sent);
  return sent;
}

}  // namespace headrace::traffic
