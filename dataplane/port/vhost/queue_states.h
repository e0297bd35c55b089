// SPDX-License-Identifier: Apache-2.0
// Which of a guest's virtqueues ("vrings") are enabled, and who is served by which.
//
// A virtio-net device has queue pairs; vring 2 * pair is the guest's receive queue, to which we
// send, and vring 2 * pair + 1 its transmit queue (virtio 1.2, section 5.1.2). A driver enables as
// many pairs as it likes, and others later (ethtool -L); a vring that is not enabled takes and
// gives nothing. So neither workers nor our receive queues are tied to a pair of the same number:
//
// * worker w sends to pair w if that is enabled, else to one of the enabled ones in turn, as OVS
//   remaps its transmit queues. With fewer pairs than workers, workers share.
// * receive queue q of n serves the pairs p with p % n == q. With more pairs than receive queues
//   one queue serves several.
//
// Thread safety: none of its own.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

namespace headrace::port::vhost {

/// What librte_vhost allows a guest (VHOST_MAX_QUEUE_PAIRS).
inline constexpr uint16_t kMaxPairs = 128;
inline constexpr uint16_t kMaxVrings = 2 * kMaxPairs;

class QueueStates {
 public:
  /// A vring beyond kMaxVrings is ignored.
  void set(uint16_t vring, bool enabled);
  /// False for a vring beyond kMaxVrings.
  [[nodiscard]] bool is_enabled(uint16_t vring) const {
    return vring < kMaxVrings && enabled_[vring];
  }

  /// The vring that each worker sends to, by the worker's number; empty if none is enabled.
  [[nodiscard]] std::vector<uint16_t> send_to(unsigned workers) const;
  /// The vrings that receive queue `queue` of `queues` takes packets from.
  [[nodiscard]] std::vector<uint16_t> receive_from(uint16_t queue, uint16_t queues) const;
  /// Pairs of which the guest's receive queue is enabled.
  [[nodiscard]] unsigned pairs_to_guest() const;

 private:
  std::bitset<kMaxVrings> enabled_;
};

}  // namespace headrace::port::vhost
