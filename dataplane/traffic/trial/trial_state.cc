// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial_state.h"

#include <rte_cycles.h>

#include <algorithm>

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
}

Pacer TrialState::schedule(size_t i, uint64_t from, uint64_t until) const {
  const Stream& stream = *streams[i].stream;
  Pacer pacer;
  if (stream.replay_speed > 0) {
    const double period_s =
        static_cast<double>(stream.replay->period_ns()) * 1e-9 / stream.replay_speed;
    pacer.start(from, until, replay_cycles[i], std::max<uint64_t>(cycles(period_s), 1));
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
