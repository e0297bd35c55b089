// SPDX-License-Identifier: Apache-2.0
// A VNF's end of a port: the implementation of libheadrace-port's C calls.
//
// Direct links: the switch writes its requests into words of the port's block, the VNF its answers
// into others. The VNF processes requests only inside its own calls, so no lock is needed:
//
//   make A -> B    switch  A.tx_wanted = 1 + B
//                  A       in hrp_tx: from now on into B's direct ring; A.tx_now = 1 + B
//                  switch  reads it; forwards what is left in A's from_vnf; stores B's to_vnf
//                          position in B.rx_after; B.rx_wanted = open
//                  B       in hrp_rx: empties to_vnf up to rx_after, then reads direct;
//                          B.rx_now = open
//   break A -> B   switch  A.tx_wanted = 0, and stops polling A's from_vnf
//                  A       in hrp_tx: A.tx_now = 0; from now on into from_vnf
//                  switch  reads it; B.rx_wanted = closed; polls A's from_vnf again
//                  B       in hrp_rx: empties direct before it reads to_vnf; B.rx_now = closed
//
// So every packet of A reaches B in order and none is lost: a ring is read only after the ring that
// was filled before it is empty.
//
// Owners: a received buffer is this end's while its slot is still in the ring (`unreleased_`), or
// once it is marked. Most VNFs pass on or free what they have received before they receive more,
// and in the same order. Then the slots are released by the call that does so, and no buffer is
// marked: a burst costs one comparison of descriptors instead of two stores for each packet.
// Whatever else a VNF does (it keeps packets, reorders them, sends others in between) makes
// settle() mark all that are left first.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "shm/burst.h"
#include "shm/layout.h"
#include "shm/ring.h"

namespace headrace::shm {

enum class Reading : uint32_t { closed = 0, open = 1 };

class VnfEnd {
 public:
  /// The port named `name` of the region at `memory`. 0, or a negative errno (headrace_port.h).
  static int find(std::span<uint8_t> memory, const char* name, uint32_t& port);

  /// Continues at the current positions of a port's rings. 0, or -EINVAL if `memory` is not a valid
  /// region, -ENOENT if it has no such port.
  int bind(std::span<uint8_t> memory, uint32_t port);

  /// Receives packets into a prefix of `packets`; returns its length. Each is inside its buffer.
  uint32_t rx(std::span<Packet> packets);
  uint32_t tx(std::span<const Packet> packets) { return tx(packets, *this); }
  /// Sends packets that `owner`, an end of the same region, holds; returns the length of the prefix
  /// sent.
  uint32_t tx(std::span<const Packet> packets, VnfEnd& owner);
  /// Allocates empty buffers, as packets of no octets that begin after the headroom.
  uint32_t alloc(std::span<Packet> packets);
  void free(std::span<const Packet> packets);
  void free(std::span<const uint32_t> buffers);
  /// Frees all buffers that this end still owns.
  void free_all();

  [[nodiscard]] uint8_t* data(const Packet& packet) const {
    return buffers_ + uint64_t{packet.buffer} * stride_ + packet.begin;
  }
  /// Octets of a buffer.
  [[nodiscard]] uint32_t room() const { return stride_; }
  /// Packets that were not inside a buffer, and were not returned to the caller.
  [[nodiscard]] uint64_t malformed() const { return malformed_; }
  [[nodiscard]] bool is_direct() const { return tx_now_ != 0; }
  [[nodiscard]] PortBlock& block() const { return *block_; }
  [[nodiscard]] std::span<uint8_t> memory() const { return memory_; }
  [[nodiscard]] uint8_t* buffers() const { return buffers_; }
  [[nodiscard]] uint32_t n_buffers() const { return n_buffers_; }

 private:
  [[nodiscard]] PortBlock& block_of(uint32_t port) const;
  void update_tx(uint32_t wanted);
  void update_rx();
  uint32_t take(PacketConsumer& ring, std::span<Packet> packets);
  /// Copies packets from the ring into a prefix of `packets`; `inside`: whether each is inside its
  /// buffer. keep() must follow unless there are none, or they are to stay in the ring.
  uint32_t peek(PacketConsumer& ring, std::span<Packet> packets, bool& inside);
  /// Makes `count` packets that were peeked at this end's; returns how many are valid.
  uint32_t keep(PacketConsumer& ring, std::span<Packet> packets, uint32_t count, bool inside);
  /// Marks the packets and removes those outside their buffer, which a faulty VNF of the group may
  /// send. Returns how many are left.
  uint32_t remove_malformed(std::span<Packet> packets);
  /// Returns marked buffers to the switch.
  void put_back(std::span<const uint32_t> buffers);
  /// The packets are in another ring now: this end does not own them any more.
  void disown(std::span<const Packet> packets);
  [[nodiscard]] PacketConsumer& unreleased_ring() {
    return unreleased_in_direct_ ? direct_in_ : to_vnf_;
  }
  /// Marks the buffers that are this end's by their slots alone, and releases those.
  void settle();

  std::span<uint8_t> memory_;
  const BurstFunctions* burst_{&burst_functions()};
  PortBlock* block_{nullptr};
  uint8_t* buffers_{nullptr};
  uint8_t* held_{nullptr};
  uint32_t stride_{0};
  uint32_t n_buffers_{0};
  uint32_t n_ports_{0};
  std::array<uint64_t, kMaxPorts> direct_at_{};  ///< validated by bind()
  uint32_t ring_capacity_{0};
  PacketConsumer to_vnf_;
  PacketProducer from_vnf_;
  NumberConsumer fill_;
  NumberProducer completion_;
  PacketConsumer direct_in_;
  PacketProducer direct_out_;
  uint32_t unreleased_{0};            ///< slots of received packets that are still in their ring:
  bool unreleased_in_direct_{false};  ///< direct_in_, else to_vnf_
  uint32_t tx_now_{0};
  Reading rx_now_{Reading::closed};
  uint32_t rx_calls_{0};
  uint64_t malformed_{0};
};

}  // namespace headrace::shm
