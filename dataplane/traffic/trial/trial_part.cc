// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial_part.h"

#include <rte_cycles.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace headrace::traffic {

namespace {

constexpr double kSettleS = 0.005;      ///< after the last packet came back, for duplicates
constexpr double kStartAheadS = 50e-6;  ///< from the barrier to the first packet's time
constexpr int kMaxLeftovers = 4096;     ///< bursts
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max() / 2;

uint64_t nanoseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

std::vector<uint16_t> numbers_of(std::span<const TrafficPort* const> ports) {
  std::vector<uint16_t> numbers;
  for (const TrafficPort* port : ports) numbers.push_back(port->number());
  return numbers;
}

/// How often the kernel has preempted this thread.
uint64_t involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nivcsw);
}

}  // namespace

TrialPart::TrialPart(TrialState& state, Assignment assigned)
    : state_(state),
      assigned_(std::move(assigned)),
      receiver_(state.arrivals, numbers_of(assigned_.polled)) {}

void TrialPart::run() {
  const bool warm = state_.options.warmup_s > 0;
  discard_leftovers();
  receiver_.start(state_.run, warm ? static_cast<uint8_t>(state_.run - 1) : state_.run,
                  state_.options.bare);
  state_.barrier.wait(state_.options.yield, [this] {
    state_.planned = rte_rdtsc() + state_.cycles(kStartAheadS);
    if (state_.options.warmup_s <= 0) state_.begin.set(state_.planned);
  });
  const uint64_t begin = warm ? warm_up(state_.planned) : state_.planned;
  for (Counter* counter : {&busy_cycles_, &total_cycles_, &rounds_, &busy_rounds_, &polls_,
                           &empty_polls_, &full_polls_}) {
    counter->set(0);
  }
  // Packets without a signature do not tell that they are the warm-up's.
  if (warm && state_.options.bare) receiver_.start(state_.run, state_.run, true);
  send_phase(begin);
  drain_phase();
}

uint64_t TrialPart::warm_up(uint64_t begin) {
  const uint64_t end = begin + state_.cycles(state_.options.warmup_s);
  start_senders(static_cast<uint8_t>(state_.run - 1), begin, end);
  while (!state_.stop.load(std::memory_order_relaxed) && rte_rdtsc() < end) round(true);
  state_.barrier.wait(state_.options.yield, [this, end] {
    // A load continues without a pause.
    state_.planned = state_.options.load_pps ? end : rte_rdtsc();
    state_.begin.set(state_.planned);
  });
  return state_.planned;
}

void TrialPart::start_senders(uint8_t run, uint64_t begin, uint64_t end) {
  const TrialOptions& options = state_.options;
  for (const size_t i : assigned_.streams) {
    Sender& sender = *state_.senders[i];
    sender.set_bare(options.bare);
    if (state_.scheduled(i)) {
      sender.start(run, state_.schedule(i, begin, end),
                   state_.cycles(options.late_bound_us * 1e-6));
    } else {
      sender.start_unpaced(run, run == state_.run ? options.packets.value_or(kNever) : kNever);
    }
  }
}

void TrialPart::send_phase(uint64_t begin) {
  const TrialOptions& options = state_.options;
  const uint64_t end = options.duration_s ? begin + state_.cycles(*options.duration_s) : kNever;
  start_senders(state_.run, begin, end);
  const uint64_t clock = nanoseconds(CLOCK_MONOTONIC);
  const uint64_t ran = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t switches = involuntary_switches();
  uint64_t now = rte_rdtsc();
  bool cut = false;
  while (true) {
    const bool worked = round(true);
    const uint64_t after = rte_rdtsc();
    total_cycles_.add(after - now);
    rounds_.add(1);
    if (worked) {
      busy_cycles_.add(after - now);
      busy_rounds_.add(1);
    }
    if (options.yield) sched_yield();
    now = rte_rdtsc();
    if (!cut && (state_.stop.load(std::memory_order_relaxed) || now >= end)) {
      for (const size_t i : assigned_.streams) state_.senders[i]->stop(std::min(now, end));
      cut = true;
    }
    if ((cut || options.packets) && all_sent()) break;
  }
  running_ns_.set(nanoseconds(CLOCK_THREAD_CPUTIME_ID) - ran);
  preemptions_.set(involuntary_switches() - switches);
  sending_ns_.set(std::max<uint64_t>(nanoseconds(CLOCK_MONOTONIC) - clock, 1));
  if (state_.sending.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.end.set(now);
}

void TrialPart::drain_phase() {
  uint64_t end = kNever;
  uint64_t settled = kNever;
  for (uint64_t now = rte_rdtsc(); now < std::min(end, settled); now = rte_rdtsc()) {
    round(false);
    if (state_.options.yield) sched_yield();
    const uint64_t sent = state_.end.read();
    if (sent == 0) continue;  // other workers still send
    if (end == kNever) end = rte_rdtsc() + state_.cycles(state_.options.drain_s);
    if (settled == kNever && state_.all_back()) settled = now + state_.cycles(kSettleS);
  }
  // Packets that arrived while this worker was preempted are in time. The bound ends the loop under
  // a flood.
  for (int i = 0; i < kMaxLeftovers && round(false); ++i) {
  }
}

void TrialPart::discard_leftovers() {
  std::array<rte_mbuf*, Sender::kBurst> packets;
  for (const TrafficPort* port : assigned_.polled) {
    // The bound ends the loop under a flood; the remaining packets are counted as stale.
    for (int i = 0; i < kMaxLeftovers; ++i) {
      const uint16_t count = port->receive(packets);
      if (count == 0) break;
      rte_pktmbuf_free_bulk(packets.data(), count);
    }
  }
}

bool TrialPart::round(bool send) noexcept {
  unsigned moved = 0;
  if (send) moved += pump_all(rte_rdtsc());
  std::array<rte_mbuf*, Sender::kBurst> packets;
  for (const TrafficPort* port : assigned_.polled) {
    const uint16_t count = port->receive(packets);
    if (send) {
      polls_.add(1);
      if (count == 0) empty_polls_.add(1);
      if (count == packets.size()) full_polls_.add(1);
    }
    if (count == 0) continue;
    receiver_.process(port->number(), std::span(packets.data(), count), rte_rdtsc());
    moved += count;
  }
  return moved != 0;
}

unsigned TrialPart::pump_all(uint64_t now) noexcept {
  unsigned moved = 0;
  const auto& senders = state_.senders;
  const auto& streams = state_.streams;
  const auto progress = [&](size_t i) {
    return static_cast<double>(senders[i]->sent()) / streams[i].stream->share;
  };
  for (const size_t i : assigned_.streams) {
    bool chosen = true;
    if (!state_.scheduled(i)) {
      // Of a port's streams without a schedule, choose the one furthest behind its share.
      chosen = !senders[i]->done();
      for (const size_t j : assigned_.streams) {
        if (!chosen) break;
        if (j == i || streams[j].tx != streams[i].tx || state_.scheduled(j) || senders[j]->done()) {
          continue;
        }
        chosen = progress(i) < progress(j) || (progress(i) == progress(j) && i < j);
      }
    }
    if (chosen) moved += senders[i]->pump(now);
  }
  return moved;
}

bool TrialPart::all_sent() const {
  return std::ranges::all_of(assigned_.streams,
                             [this](size_t i) { return state_.senders[i]->done(); });
}

double TrialPart::busy_share() const {
  const uint64_t total = total_cycles_.read();
  return total == 0 ? 0 : static_cast<double>(busy_cycles_.read()) / static_cast<double>(total);
}

double TrialPart::on_core_share() const {
  const uint64_t total = sending_ns_.read();
  if (total == 0) return -1;
  return std::min(1.0, static_cast<double>(running_ns_.read()) / static_cast<double>(total));
}

}  // namespace headrace::traffic
