// SPDX-License-Identifier: Apache-2.0
// The switch's side of a region's direct links: the steps of vnf_end.h's protocol.
//
// A port sends to at most one other port directly, and receives from at most one. The control
// thread sets which links are wanted; the worker advances each link when its VNFs have answered and
// never blocks on them. A VNF that makes no calls leaves its link in an intermediate state, in
// which no packet is lost.
//
// Validation: an answer is accepted only in the state that waits for it, and the switch never reads
// back what it wrote into the region. A VNF that writes wrong answers can reorder or lose packets
// of its own group only. Traffic is counted from positions and octets of the receiver's direct
// ring, which VNFs of the group can write: impossible positions are not counted, and a packet
// counts at most the octets of a buffer. So wrong values can falsify the counters of that group's
// links only.
//
// Termination: the link of a sender that has exited ends at once, and the receiver reads what was
// sent. The ring of a receiver that has exited is reclaimed when its sender has stopped using it or
// has exited, too. A sender that makes no calls does not keep the receiver's next VNF out: that one
// takes the ring over as it is, and answers in its predecessor's place.
//
// Threads: want() and take_traffic() on the control thread, state() on any, the rest on the worker
// that uses the region.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "shm/switch_end.h"

namespace headrace::shm {

enum class LinkState : uint8_t {
  off,        ///< the port's packets go through the switch
  requested,  ///< tx_wanted is set; the sender has not switched over
  draining,   ///< it has; packets that it sent to the switch before are still being forwarded
  opening,    ///< rx_wanted is set; the receiver has not switched over
  on,
  emptying  ///< the sender sends to the switch again; the receiver still reads the direct ring
};
[[nodiscard]] std::string_view name(LinkState state);

/// Traffic that passed a direct ring.
struct DirectTraffic {
  uint64_t packets{0};
  uint64_t octets{0};
};

class DirectLinks {
 public:
  /// `ends` must outlive it.
  explicit DirectLinks(SwitchEnd& ends) : ends_(ends) {}

  /// Sets the port to which `from` is to send directly; nothing: to the switch. May be changed to
  /// another port only while state() is off.
  void want(uint32_t from, std::optional<uint32_t> to);
  [[nodiscard]] LinkState state(uint32_t from) const {
    return links_[from].state.load(std::memory_order_acquire);
  }
  /// The traffic on the direct ring of `to` since the last call.
  DirectTraffic take_traffic(uint32_t to);

  /// Advances the link from `from`. False while the switch must not poll `from`: its packets there
  /// must follow those that the receiver has yet to read from the direct ring.
  bool step(uint32_t from);
  /// Reports the result of each poll of `from` after step(): no packets, some, or a `full` burst.
  /// After a full burst the worker may poll again before it forwards the packets; otherwise it
  /// forwards them first. So all packets have been forwarded once a poll returns nothing and the
  /// one before it was not full.
  void polled(uint32_t from, uint32_t packets, bool full);
  /// Advances links whose sender has exited; called by the worker or, without one, the control
  /// thread.
  void step_abandoned() {
    if (abandoned_ != 0) step_each_abandoned();
  }
  /// Detaches the port of an exited VNF. False while its direct ring can't be reclaimed yet: call
  /// again each round, until true or attach().
  bool detach(uint32_t port);
  /// A VNF uses the port again, after its other rings were reclaimed: it reads the direct ring on.
  void attach(uint32_t port) { exited_ &= ~(uint64_t{1} << port); }
  /// Ends all links at once, when no VNF uses the region.
  void drop_all();

 private:
  struct Link {
    std::atomic<uint32_t> wanted{0};  ///< 0, or 1 + the port to send to
    std::atomic<LinkState> state{LinkState::off};
    uint32_t to{0};
    bool recalled{false};  ///< tx_wanted is cleared; the sender has not switched back
    bool was_full{false};  ///< the last poll
  };
  /// Positions of a direct ring when its traffic was last counted.
  struct Read {
    uint32_t head{0};
    uint64_t octets{0};
  };

  [[nodiscard]] LinkWords& words(uint32_t port) const { return ends_.region().port(port).link; }
  void set(Link& link, LinkState state) { link.state.store(state, std::memory_order_release); }
  void open(Link& link);
  void finish(Link& link);
  void detach_sender(uint32_t from);
  bool detach_receiver(uint32_t to);
  void step_each_abandoned();

  SwitchEnd& ends_;
  std::array<Link, kMaxPorts> links_;
  std::array<uint32_t, kMaxPorts> sender_to_{};  ///< 0, or 1 + the port that sends directly
  uint64_t exited_{0};                           ///< ports, by bit, whose VNF has exited
  uint64_t abandoned_{0};                        ///< links, by sender, whose sender has exited
  std::array<Read, kMaxPorts> read_;             ///< used by the control thread
};

}  // namespace headrace::shm
