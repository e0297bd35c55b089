// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <limits>

namespace headrace::traffic {

namespace {

constexpr double kSettleS = 0.005;      ///< after the last packet came back, for copies
constexpr double kStartAheadS = 50e-6;  ///< from the plan to the first packet's time
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max() / 2;

std::vector<uint16_t> rx_ports(std::span<const Trial::Lane> lanes) {
  std::vector<uint16_t> ports;
  for (const Trial::Lane& lane : lanes) ports.push_back(lane.rx->id());
  return ports;
}

}  // namespace

Trial::Trial(std::span<const Lane> lanes, std::span<const TrafficPort* const> ports,
             const TrialOptions& options, uint8_t run)
    : lanes_(lanes.begin(), lanes.end()),
      options_(options),
      run_(run),
      tsc_hz_(static_cast<double>(rte_get_tsc_hz())),
      receiver_(rx_ports(lanes)) {
  for (const TrafficPort* port : ports) polled_.push_back(port->id());
  for (const Lane& lane : lanes_) {
    replay_cycles_.emplace_back();
    if (lane.stream->replay_speed > 0) {
      for (const uint64_t time : lane.stream->replay->times_ns()) {
        replay_cycles_.back().push_back(
            cycles(static_cast<double>(time) * 1e-9 / lane.stream->replay_speed));
      }
    } else {
      total_share_ += lane.stream->share;
    }
    senders_.push_back(
        std::make_unique<Sender>(*lane.stream, static_cast<uint16_t>(senders_.size()), *lane.tx));
  }
}

uint64_t Trial::cycles(double seconds) const {
  return static_cast<uint64_t>(seconds * tsc_hz_);
}

void Trial::run() {
  discard_leftovers();
  const auto warmup_run = static_cast<uint8_t>(run_ - 1);
  const bool warm = options_.warmup_s > 0;
  receiver_.start(run_, warm ? warmup_run : run_);
  uint64_t begin = rte_rdtsc() + cycles(kStartAheadS);
  if (warm) {
    const uint64_t end = begin + cycles(options_.warmup_s);
    start_senders(warmup_run, begin, end);
    while (!stop_.load(std::memory_order_relaxed) && rte_rdtsc() < end) round(true);
    begin = options_.load_pps ? end : rte_rdtsc();
  }
  busy_cycles_.set(0);
  total_cycles_.set(0);
  start_senders(run_, begin, options_.duration_s ? begin + cycles(*options_.duration_s) : kNever);
  begin_.set(begin);
  send_phase();
  drain_phase();
}

bool Trial::scheduled(size_t i) const {
  return options_.load_pps || lanes_[i].stream->replay_speed > 0;
}

Pacer Trial::schedule(size_t i, uint64_t begin, uint64_t end) const {
  const Stream& stream = *lanes_[i].stream;
  Pacer pacer;
  if (stream.replay_speed > 0) {
    const double period_s =
        static_cast<double>(stream.replay->period_ns()) * 1e-9 / stream.replay_speed;
    pacer.start(begin, end, replay_cycles_[i], std::max<uint64_t>(cycles(period_s), 1));
  } else {
    // Streams of one rate take turns instead of being due together.
    const double phase = static_cast<double>(i) / static_cast<double>(senders_.size());
    pacer.start(begin, end, *options_.load_pps * stream.share / total_share_, tsc_hz_, phase,
                options_.burst);
  }
  return pacer;
}

void Trial::start_senders(uint8_t run, uint64_t begin, uint64_t end) {
  for (size_t i = 0; i < senders_.size(); ++i) {
    if (scheduled(i)) {
      senders_[i]->start(run, schedule(i, begin, end), cycles(options_.late_bound_us * 1e-6));
    } else {
      senders_[i]->start_unpaced(run, run == run_ ? options_.packets.value_or(kNever) : kNever);
    }
  }
}

void Trial::send_phase() {
  const uint64_t begin = begin_.get();
  const uint64_t end = options_.duration_s ? begin + cycles(*options_.duration_s) : kNever;
  uint64_t now = rte_rdtsc();
  bool cut = false;
  while (true) {
    const bool worked = round(true);
    const uint64_t after = rte_rdtsc();
    total_cycles_.add(after - now);
    if (worked) busy_cycles_.add(after - now);
    if (options_.yield) sched_yield();
    now = rte_rdtsc();
    if (!cut && (stop_.load(std::memory_order_relaxed) || now >= end)) {
      for (const auto& sender : senders_) sender->stop(std::min(now, end));
      cut = true;
    }
    if ((cut || options_.packets) && all_sent()) break;
  }
  end_.set(now);
}

void Trial::drain_phase() {
  const uint64_t end = rte_rdtsc() + cycles(options_.drain_s);
  uint64_t settled = kNever;
  for (uint64_t now = rte_rdtsc(); now < std::min(end, settled); now = rte_rdtsc()) {
    round(false);
    if (options_.yield) sched_yield();
    if (settled == kNever && all_back()) settled = now + cycles(kSettleS);
  }
}

void Trial::discard_leftovers() {
  std::array<rte_mbuf*, Sender::kBurst> packets;
  for (const uint16_t port : polled_) {
    // A peer that floods would keep this going for ever; what is left is stale, and counted so.
    for (int i = 0; i < 4096; ++i) {
      const uint16_t count = rte_eth_rx_burst(port, 0, packets.data(), packets.size());
      if (count == 0) break;
      rte_pktmbuf_free_bulk(packets.data(), count);
    }
  }
}

bool Trial::round(bool send) noexcept {
  unsigned moved = 0;
  if (send) moved += pump_all(rte_rdtsc());
  std::array<rte_mbuf*, Sender::kBurst> packets;
  for (const uint16_t port : polled_) {
    const uint16_t count = rte_eth_rx_burst(port, 0, packets.data(), packets.size());
    if (count == 0) continue;
    receiver_.take(port, std::span(packets.data(), count), rte_rdtsc());
    moved += count;
  }
  return moved != 0;
}

unsigned Trial::pump_all(uint64_t now) noexcept {
  unsigned moved = 0;
  const auto progress = [this](size_t i) {
    return static_cast<double>(senders_[i]->sent()) / lanes_[i].stream->share;
  };
  for (size_t i = 0; i < senders_.size(); ++i) {
    bool chosen = true;
    if (!scheduled(i)) {
      // Of a port's streams without a schedule, the one furthest behind its share.
      chosen = !senders_[i]->done();
      for (size_t j = 0; j < senders_.size() && chosen; ++j) {
        if (j == i || lanes_[j].tx != lanes_[i].tx || scheduled(j) || senders_[j]->done()) continue;
        chosen = progress(i) < progress(j) || (progress(i) == progress(j) && i < j);
      }
    }
    if (chosen) moved += senders_[i]->pump(now);
  }
  return moved;
}

bool Trial::all_sent() const {
  return std::all_of(senders_.begin(), senders_.end(), [](const auto& s) { return s->done(); });
}

bool Trial::all_back() const {
  for (size_t i = 0; i < senders_.size(); ++i) {
    if (receiver_.stream(i).received.get() != senders_[i]->sent()) return false;
  }
  return true;
}

double Trial::sending_s() const {
  const uint64_t begin = begin_.get();
  if (begin == 0) return 0;
  const uint64_t end = end_.get();
  const uint64_t now = end != 0 ? end : rte_rdtsc();
  return now > begin ? static_cast<double>(now - begin) / tsc_hz_ : 0;
}

double Trial::busy_share() const {
  const uint64_t total = total_cycles_.get();
  return total == 0 ? 0 : static_cast<double>(busy_cycles_.get()) / static_cast<double>(total);
}

}  // namespace headrace::traffic
