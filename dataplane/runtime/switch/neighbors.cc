// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/neighbors.h"

#include <algorithm>

namespace headrace::runtime {

std::optional<pipeline::MacAddress> Neighbors::find(uint32_t underlay,
                                                    const port::IpAddress& ip) const {
  const auto found = entries_.find({underlay, ip});
  return found == entries_.end() ? std::nullopt : found->second.mac;
}

bool Neighbors::should_ask(uint32_t underlay, const port::IpAddress& ip, Clock::time_point now) {
  Entry& entry = entries_[{underlay, ip}];
  if (entry.mac && now - entry.learned < kFresh) return false;
  if (entry.asked != Clock::time_point{} && now - entry.asked < kAskAgain) return false;
  entry.asked = now;
  return true;
}

bool Neighbors::learn(uint32_t underlay, const NeighborMessage& message, Clock::time_point now) {
  if (!message.mac) return false;
  const auto found = entries_.find({underlay, message.of});
  if (found == entries_.end()) return false;  // not a next hop of any tunnel
  const bool changed = found->second.mac != message.mac;
  found->second.mac = message.mac;
  found->second.learned = now;
  return changed;
}

void Neighbors::expire(Clock::time_point now) {
  std::erase_if(entries_, [&](const auto& entry) {
    const Entry& what = entry.second;
    return now - std::max(what.learned, what.asked) > kStale ||
           (what.mac && now - what.learned > kStale);
  });
}

void Neighbors::forget(uint32_t underlay) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == underlay; });
}

}  // namespace headrace::runtime
