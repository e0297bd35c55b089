// SPDX-License-Identifier: Apache-2.0
// Which of its port's queues a packet asks for: OpenFlow's set_queue action, kept in the mbuf until
// the packet is sent. Ports without queues do not look.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>
#include <optional>

namespace headrace::pipeline {

/// The mbuf flag that says that a queue was asked for; 0 if DPDK has none left, and then no packet
/// asks for one.
inline uint64_t queue_flag() noexcept {
  static const uint64_t flag = [] {
    static constexpr rte_mbuf_dynflag kFlag{"headrace_queue", 0};
    const int bit = rte_mbuf_dynflag_register(&kFlag);
    return bit < 0 ? uint64_t{0} : uint64_t{1} << bit;
  }();
  return flag;
}

inline void set_queue(rte_mbuf& packet, uint32_t queue_id) noexcept {
  packet.ol_flags |= queue_flag();
  packet.hash.sched.queue_id = queue_id;
}

inline std::optional<uint32_t> queue_of(const rte_mbuf& packet) noexcept {
  if ((packet.ol_flags & queue_flag()) == 0) return std::nullopt;
  return packet.hash.sched.queue_id;
}

}  // namespace headrace::pipeline
