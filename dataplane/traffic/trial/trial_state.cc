// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial_state.h"

#include <rte_cycles.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace headrace::traffic {

TrialState::TrialState(std::span<const TrialStream> all, const TrialOptions& wanted, uint8_t number,
                       unsigned workers)
    : streams(all.begin(), all.end()),
      options(wanted),
      run(number),
      tsc_hz(static_cast<double>(rte_get_tsc_hz())),
      barrier(workers),
      sending(workers) {
  for (const TrialStream& entry : streams) {
    replay_cycles.emplace_back();
    if (entry.stream->replay_speed > 0) {
      for (const uint64_t time : entry.stream->replay->times_ns()) {
        replay_cycles.back().push_back(
            cycles(static_cast<double>(time) * 1e-9 / entry.stream->replay_speed));
      }
    } else {
      total_share += entry.stream->share;
    }
    senders.push_back(
        std::make_unique<Sender>(*entry.stream, static_cast<uint16_t>(senders.size()), *entry.tx));
    arrivals.push_back(std::make_unique<Arrivals>());
    arrivals.back()->rx_port = entry.rx->number();
  }
  if (options.poisson) make_poisson();
}

void TrialState::make_poisson() {
  // One value of each of kGaps equal parts of the exponential distribution, shuffled: the mean is
  // the load's, and a period is long beside any queue.
  constexpr size_t kGaps = 1 << 14;
  std::vector<double> gaps(kGaps);
  double sum = 0;
  for (size_t i = 0; i < kGaps; ++i) {
    gaps[i] = -std::log((static_cast<double>(i) + 0.5) / kGaps);
    sum += gaps[i];
  }
  poisson_cycles.resize(streams.size());
  poisson_period.resize(streams.size());
  for (size_t stream = 0; stream < streams.size(); ++stream) {
    if (streams[stream].stream->replay_speed > 0) continue;
    std::shuffle(gaps.begin(), gaps.end(), std::mt19937(static_cast<unsigned>(stream) + 1));
    const double pps = *options.load_pps * streams[stream].stream->share / total_share;
    const double scale = tsc_hz / pps * options.burst * kGaps / sum;
    double at = 0;
    for (const double gap : gaps) {
      poisson_cycles[stream].insert(poisson_cycles[stream].end(), options.burst,
                                    static_cast<uint64_t>(at));
      at += gap * scale;
    }
    poisson_period[stream] = std::max<uint64_t>(static_cast<uint64_t>(at), 1);
  }
}

Pacer TrialState::schedule(size_t i, uint64_t from, uint64_t until) const {
  const Stream& stream = *streams[i].stream;
  Pacer pacer;
  if (stream.replay_speed > 0) {
    const double period_s =
        static_cast<double>(stream.replay->period_ns()) * 1e-9 / stream.replay_speed;
    pacer.start(from, until, replay_cycles[i], std::max<uint64_t>(cycles(period_s), 1));
  } else if (options.poisson) {
    pacer.start(from, until, poisson_cycles[i], poisson_period[i]);
  } else {
    // Streams of the same rate are interleaved instead of being due together.
    const double phase = static_cast<double>(i) / static_cast<double>(senders.size());
    pacer.start(from, until, *options.load_pps * stream.share / total_share, tsc_hz, phase,
                options.burst);
  }
  return pacer;
}

bool TrialState::all_back() const {
  for (size_t i = 0; i < senders.size(); ++i) {
    if (arrivals[i]->received.read() != senders[i]->sent()) return false;
  }
  return true;
}

}  // namespace headrace::traffic
