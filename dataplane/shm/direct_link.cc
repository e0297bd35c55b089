// SPDX-License-Identifier: Apache-2.0
#include "shm/direct_link.h"

#include <algorithm>
#include <bit>

#include "shm/vnf_end.h"

namespace headrace::shm {
namespace {

void set_rx_wanted(LinkWords& receiver, Reading reading) {
  receiver.rx_wanted.store(static_cast<uint32_t>(reading), std::memory_order_release);
}

bool is_reading(const LinkWords& receiver, Reading reading) {
  return receiver.rx_now.load(std::memory_order_acquire) == static_cast<uint32_t>(reading);
}

}  // namespace

std::string_view name(LinkState state) {
  switch (state) {
    case LinkState::off:
      return "off";
    case LinkState::requested:
      return "requested";
    case LinkState::draining:
      return "draining";
    case LinkState::opening:
      return "opening";
    case LinkState::on:
      return "on";
    case LinkState::emptying:
      return "emptying";
  }
  return "unknown";
}

// --- control -----------------------------------------------------------------------------------

void DirectLinks::want(uint32_t from, std::optional<uint32_t> to) {
  links_[from].wanted.store(to ? 1 + *to : 0, std::memory_order_release);
}

DirectTraffic DirectLinks::take_traffic(uint32_t to) {
  const auto& ring = *static_cast<const RingHeader*>(ends_.region().direct(to));
  // Each is read once. Both positions only increase, so the head is at least the tail read before
  // it, and at most the capacity ahead of the tail read after it; otherwise a VNF has written
  // invalid positions.
  const uint32_t tail_before = ring.tail.load(std::memory_order_acquire);
  const uint32_t head = ring.head.load(std::memory_order_acquire);
  const uint64_t octets = ring.octets.load(std::memory_order_relaxed);
  const uint32_t tail_after = ring.tail.load(std::memory_order_acquire);
  const uint32_t capacity = ends_.region().config().ring_capacity;
  Read& read = read_[to];
  const auto packets = static_cast<int32_t>(head - read.head);
  const auto grown = static_cast<int64_t>(octets - read.octets);
  if (packets < 0 || grown < 0 || static_cast<int32_t>(head - tail_before) < 0 ||
      static_cast<int32_t>(tail_after + capacity - head) < 0) {
    read = {head, octets};
    return {};
  }
  // The producer writes octets before the head that includes them, so octets may be ahead of the
  // head; the difference is counted the next time.
  const int64_t room = ends_.region().buffer_stride();
  const int64_t counted = std::min(grown, packets * room);
  read = {head, read.octets + static_cast<uint64_t>(counted)};
  return {static_cast<uint64_t>(packets), static_cast<uint64_t>(counted)};
}

// --- worker ------------------------------------------------------------------------------------

bool DirectLinks::step(uint32_t from) {
  Link& link = links_[from];
  const uint32_t wanted = link.wanted.load(std::memory_order_acquire);
  const LinkState state = link.state.load(std::memory_order_relaxed);
  if (state == LinkState::off) {
    if (wanted == 0 || sender_to_[wanted - 1] != 0) return true;
    link.to = wanted - 1;
    link.recalled = false;
    sender_to_[link.to] = 1 + from;
    words(from).tx_wanted.store(wanted, std::memory_order_release);
    set(link, LinkState::requested);
    return true;
  }
  LinkWords& sender = words(from);
  LinkWords& receiver = words(link.to);
  switch (state) {
    case LinkState::requested:
      // The sender can be recalled only after it has answered: it may be about to switch over.
      if (sender.tx_now.load(std::memory_order_acquire) == 1 + link.to) {
        set(link, LinkState::draining);
      }
      return true;
    case LinkState::draining:
      return true;  // polled() changes the state
    case LinkState::opening:
    case LinkState::on:
      if (!link.recalled && (wanted != 1 + link.to || (exited_ >> link.to & 1) != 0)) {
        sender.tx_wanted.store(0, std::memory_order_release);
        link.recalled = true;
      }
      if (state == LinkState::opening) {
        if (is_reading(receiver, Reading::open)) set(link, LinkState::on);
        return false;
      }
      if (!link.recalled || sender.tx_now.load(std::memory_order_acquire) != 0) return false;
      // From now on the receiver reads to_vnf only when its direct ring is empty, so there is no
      // need to wait for it.
      set_rx_wanted(receiver, Reading::closed);
      set(link, LinkState::emptying);
      return true;
    case LinkState::emptying:
      if (is_reading(receiver, Reading::closed)) finish(link);
      return true;
    case LinkState::off:
      break;
  }
  return true;
}

void DirectLinks::polled(uint32_t from, uint32_t packets, bool full) {
  Link& link = links_[from];
  const bool drained = packets == 0 && !link.was_full;
  link.was_full = full;
  if (drained && link.state.load(std::memory_order_relaxed) == LinkState::draining) open(link);
}

void DirectLinks::open(Link& link) {
  LinkWords& receiver = words(link.to);
  receiver.rx_after.store(ends_.sent_position(link.to), std::memory_order_relaxed);
  set_rx_wanted(receiver, Reading::open);
  set(link, LinkState::opening);
}

void DirectLinks::finish(Link& link) {
  sender_to_[link.to] = 0;
  set(link, LinkState::off);
}

// --- exited VNFs -------------------------------------------------------------------------------

bool DirectLinks::detach(uint32_t port) {
  exited_ |= uint64_t{1} << port;
  detach_sender(port);
  if (!detach_receiver(port)) return false;
  exited_ &= ~(uint64_t{1} << port);
  return true;
}

void DirectLinks::detach_sender(uint32_t from) {
  Link& link = links_[from];
  const LinkState state = link.state.load(std::memory_order_relaxed);
  if (state == LinkState::off) return;
  // It answers no more; the next VNF starts by sending to the switch.
  words(from).tx_wanted.store(0, std::memory_order_relaxed);
  words(from).tx_now.store(0, std::memory_order_release);
  link.recalled = true;
  if (state == LinkState::requested || state == LinkState::draining) open(link);
  abandoned_ |= uint64_t{1} << from;
}

bool DirectLinks::detach_receiver(uint32_t to) {
  if (sender_to_[to] == 0) return true;
  const uint32_t from = sender_to_[to] - 1;
  Link& link = links_[from];
  switch (link.state.load(std::memory_order_relaxed)) {
    case LinkState::opening:
      // The next VNF's to_vnf begins anew.
      words(to).rx_after.store(0, std::memory_order_release);
      [[fallthrough]];
    case LinkState::on:
      if (!link.recalled) step(from);
      if (words(from).tx_now.load(std::memory_order_acquire) != 0) return false;
      break;
    case LinkState::emptying:
      break;
    default:
      return false;
  }
  set_rx_wanted(words(to), Reading::closed);
  words(to).rx_now.store(static_cast<uint32_t>(Reading::closed), std::memory_order_release);
  finish(link);
  return true;
}

void DirectLinks::step_each_abandoned() {
  for (uint64_t links = abandoned_; links != 0; links &= links - 1) {
    const auto from = static_cast<uint32_t>(std::countr_zero(links));
    step(from);
    const LinkState state = links_[from].state.load(std::memory_order_relaxed);
    if (state == LinkState::off || state == LinkState::requested) {
      abandoned_ &= ~(uint64_t{1} << from);
    }
  }
}

void DirectLinks::drop_all() {
  for (uint32_t port = 0; port < ends_.region().config().n_ports; ++port) {
    LinkWords& link = words(port);
    for (Shared32* word : {&link.tx_wanted, &link.tx_now, &link.rx_wanted, &link.rx_now}) {
      word->store(0, std::memory_order_release);
    }
    set(links_[port], LinkState::off);
  }
  sender_to_.fill(0);
  exited_ = abandoned_ = 0;
}

}  // namespace headrace::shm
