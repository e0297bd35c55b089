// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/queue_states.h"

namespace headrace::port::vhost {

void QueueStates::set(uint16_t vring, bool enabled) {
  if (vring < kMaxVrings) enabled_.set(vring, enabled);
}

std::vector<uint16_t> QueueStates::send_to(unsigned workers) const {
  std::vector<uint16_t> enabled;
  for (uint16_t vring = 0; vring < kMaxVrings; vring += 2) {
    if (enabled_.test(vring)) enabled.push_back(vring);
  }
  std::vector<uint16_t> vrings;
  if (enabled.empty()) return vrings;
  size_t next = 0;
  for (unsigned worker = 0; worker < workers; ++worker) {
    const unsigned own = 2 * worker;
    const bool has_own = own < kMaxVrings && enabled_.test(own);
    vrings.push_back(has_own ? static_cast<uint16_t>(own) : enabled[next++ % enabled.size()]);
  }
  return vrings;
}

std::vector<uint16_t> QueueStates::receive_from(uint16_t queue, uint16_t queues) const {
  std::vector<uint16_t> vrings;
  for (unsigned pair = queue; pair < kMaxPairs; pair += queues) {
    const auto vring = static_cast<uint16_t>(2 * pair + 1);
    if (enabled_.test(vring)) vrings.push_back(vring);
  }
  return vrings;
}

unsigned QueueStates::pairs_to_guest() const {
  unsigned pairs = 0;
  for (uint16_t vring = 0; vring < kMaxVrings; vring += 2) pairs += enabled_.test(vring) ? 1 : 0;
  return pairs;
}

}  // namespace headrace::port::vhost
