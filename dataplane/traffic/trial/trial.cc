// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/trial.h"

#include <rte_cycles.h>

#include <algorithm>

namespace headrace::traffic {

std::vector<std::pair<unsigned, unsigned>> share_ports(size_t ports, unsigned workers) {
  std::vector<std::pair<unsigned, unsigned>> shares;
  for (size_t i = 0; i < ports; ++i) {
    const bool whole = ports >= workers;
    const auto sends = static_cast<unsigned>((whole ? i : 2 * i) % workers);
    const auto polls = whole ? sends : static_cast<unsigned>((2 * i + 1) % workers);
    shares.emplace_back(sends, polls);
  }
  return shares;
}

Trial::Trial(std::span<const TrialStream> streams, std::span<const TrafficPort* const> ports,
             const TrialOptions& options, uint8_t run, unsigned workers)
    : state_(streams, options, run, workers) {
  const auto shares = share_ports(ports.size(), workers);
  std::vector<TrialPart::Assignment> assignments(workers);
  for (size_t i = 0; i < ports.size(); ++i) {
    assignments[shares[i].second].polled.push_back(ports[i]);
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    const auto port = std::ranges::find(ports, streams[i].tx) - ports.begin();
    assignments[shares[static_cast<size_t>(port)].first].streams.push_back(i);
  }
  for (TrialPart::Assignment& each : assignments) {
    parts_.push_back(std::make_unique<TrialPart>(state_, std::move(each)));
  }
}

uint64_t Trial::misdelivered(size_t i) const {
  uint64_t total = 0;
  for (const auto& part : parts_) total += part->receiver().misdelivered(i);
  return total;
}

double Trial::sending_s() const {
  const uint64_t begin = state_.begin.read();
  if (begin == 0) return 0;
  const uint64_t end = state_.end.read();
  const uint64_t now = end != 0 ? end : rte_rdtsc();
  return now > begin ? static_cast<double>(now - begin) / state_.tsc_hz : 0;
}

}  // namespace headrace::traffic
