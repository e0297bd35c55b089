// SPDX-License-Identifier: Apache-2.0
// The switch's part in a region's direct links: the steps of vnf_end.h's protocol.
//
// A port sends to at most one other port directly, and receives from at most one. What is wanted is
// said by the control thread; the worker moves links on as the VNFs answer, and waits for nobody: a
// VNF that never calls keeps a link half made or half parted, and loses nothing by it.
//
// What is believed. Of the words that VNFs write here, an answer counts only if it is the one that
// is waited for; the switch never reads back what it wrote. A VNF that lies reorders or loses what
// its own group sends. Traffic is counted from the positions and octets of the receiver's direct
// ring, which the group's VNFs write: positions that can't be count nothing, and a packet counts at
// most a buffer of octets. So a group can tell lies about its own links, and about no other's.
//
// A VNF that is gone. A dead sender's link ends by itself: the receiver reads what had been sent.
// A dead receiver's ring is taken back when its sender, alive or dead, sends to it no more.
//
// Threads: want() and take_traffic() are the control thread's, state() anyone's, the rest is the
// worker's that uses the region.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "shm/switch_end.h"

namespace headrace::shm {

enum class LinkState : uint8_t {
  off,       ///< the port's packets go through the switch
  asking,    ///< the sender was asked to send directly
  draining,  ///< it does; what it sent to the switch before is still being forwarded
  opening,   ///< the receiver was asked to read directly
  on,
  emptying  ///< the sender sends to the switch again; the receiver still reads the direct ring
};
[[nodiscard]] std::string_view name(LinkState state);

/// What went through a direct ring.
struct DirectTraffic {
  uint64_t packets{0};
  uint64_t octets{0};
};

class DirectLinks {
 public:
  /// `ends` must outlive it.
  explicit DirectLinks(SwitchEnd& ends) : ends_(ends) {}

  /// Where `from` is to send directly; nothing: to the switch. Another port than before only while
  /// state() is off.
  void want(uint32_t from, std::optional<uint32_t> to);
  [[nodiscard]] LinkState state(uint32_t from) const {
    return links_[from].state.load(std::memory_order_acquire);
  }
  /// What arrived by the direct ring of `to` since the last call.
  DirectTraffic take_traffic(uint32_t to);

  /// Moves the link from `from` on. False while the switch must not poll `from`: its packets there
  /// come after those that the receiver has still to read from the direct ring.
  bool step(uint32_t from);
  /// Tells what each poll of `from`, after step(), brought: nothing, some, or a `full` burst. After
  /// a full one the worker may poll again before it sends on what it has; else it sends on first.
  /// So all has been sent on once a poll finds nothing and the one before it was not full.
  void polled(uint32_t from, uint32_t packets, bool full);
  /// Moves on links whose sender is gone, whoever polls.
  void step_abandoned() {
    if (abandoned_ != 0) step_each_abandoned();
  }
  /// The port's VNF is gone. False while its rings can't be reclaimed yet: ask again in each round.
  bool detach(uint32_t port);
  /// No VNF of the region is left: ends all links at once.
  void drop_all();

 private:
  struct Link {
    std::atomic<uint32_t> wanted{0};  ///< 0, or 1 + the port to send to
    std::atomic<LinkState> state{LinkState::off};
    uint32_t to{0};
    bool recalled{false};  ///< the sender was asked to send to the switch again
    bool was_full{false};  ///< the last poll
  };
  /// How far a direct ring was when it was last asked.
  struct Read {
    uint32_t head{0};
    uint64_t octets{0};
  };

  [[nodiscard]] LinkWords& words(uint32_t port) const { return ends_.region().port(port).link; }
  void set(Link& link, LinkState state) { link.state.store(state, std::memory_order_release); }
  void open(Link& link);
  void finish(Link& link);
  void part_sender(uint32_t from);
  bool part_receiver(uint32_t to);
  void step_each_abandoned();

  SwitchEnd& ends_;
  std::array<Link, kMaxPorts> links_;
  std::array<uint32_t, kMaxPorts> sender_to_{};  ///< 0, or 1 + the port that sends directly
  uint64_t gone_{0};                             ///< ports, by bit, whose VNF is gone
  uint64_t abandoned_{0};                        ///< links, by sender, whose sender is gone
  std::array<Read, kMaxPorts> read_;             ///< the control thread's
};

}  // namespace headrace::shm
