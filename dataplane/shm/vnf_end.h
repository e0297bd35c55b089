// SPDX-License-Identifier: Apache-2.0
// A VNF's end of a port: what libheadrace-port's C calls do.
//
// Direct links: the switch writes its requests into words of the port's block and the VNF its
// answers into others. The VNF acts on a request inside its own calls only, so no lock is needed:
//
//   make A -> B    switch  A.tx_wanted = 1 + B
//                  A       in hrp_tx: from now on into B's direct ring; A.tx_now = 1 + B
//                  switch  sees it; forwards what is left in A's from_vnf; notes B's to_vnf
//                  position
//                          in B.rx_after; B.rx_wanted = open
//                  B       in hrp_rx: empties to_vnf up to rx_after, then reads direct; B.rx_now =
//                  open
//   break A -> B   switch  A.tx_wanted = 0, and leaves A's from_vnf alone
//                  A       in hrp_tx: A.tx_now = 0; from now on into from_vnf
//                  switch  sees it; B.rx_wanted = closed; polls A's from_vnf again
//                  B       in hrp_rx: empties direct before it reads to_vnf; B.rx_now = closed
//
// So every packet of A reaches B in order and none is lost: a ring is read only after the one that
// was filled before it is empty.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "shm/layout.h"
#include "shm/ring.h"

namespace headrace::shm {

enum class Reading : uint32_t { closed = 0, open = 1 };

class VnfEnd {
 public:
  /// The port named `name` of the region at `memory`. 0, or a negative errno (headrace_port.h).
  static int find(std::span<uint8_t> memory, const char* name, uint32_t& port);

  /// Continues on a port's rings where they stand. 0, or -EINVAL if `memory` is no region of ours,
  /// -ENOENT if it has no such port.
  int bind(std::span<uint8_t> memory, uint32_t port);

  /// What came: a prefix of `packets`; how many. They are checked: inside a buffer each.
  uint32_t rx(std::span<Packet> packets);
  uint32_t tx(std::span<const Packet> packets) { return tx(packets, *this); }
  /// The same for packets that `owner`, an end of the same region, holds.
  uint32_t tx(std::span<const Packet> packets, VnfEnd& owner);
  /// Empty buffers, as packets of no octets that begin after the headroom.
  uint32_t alloc(std::span<Packet> packets);
  void free(std::span<const Packet> packets);
  void free(std::span<const uint32_t> buffers);
  /// Frees all that this end still owns.
  void free_all();

  [[nodiscard]] uint8_t* data(const Packet& packet) const {
    return buffers_ + uint64_t{packet.buffer} * stride_ + packet.begin;
  }
  /// Octets of a buffer.
  [[nodiscard]] uint32_t room() const { return stride_; }
  /// Packets that were not inside a buffer, and were not given to the caller.
  [[nodiscard]] uint64_t malformed() const { return malformed_; }
  [[nodiscard]] bool is_direct() const { return tx_now_ != 0; }
  [[nodiscard]] PortBlock& block() const { return *block_; }
  [[nodiscard]] std::span<uint8_t> memory() const { return memory_; }
  [[nodiscard]] uint8_t* buffers() const { return buffers_; }
  [[nodiscard]] uint32_t n_buffers() const { return n_buffers_; }

 private:
  [[nodiscard]] PortBlock& block_of(uint32_t port) const;
  void follow_tx(uint32_t wanted);
  void follow_rx();
  uint32_t take(PacketConsumer& ring, std::span<Packet> packets);
  /// Makes `count` packets that were peeked at this end's own; how many of them are packets.
  uint32_t keep(PacketConsumer& ring, std::span<Packet> packets, uint32_t count);
  /// Marks and returns those inside a buffer: a faulty VNF of the group may send others. How
  /// many.
  uint32_t without_nonsense(std::span<Packet> packets);
  void unmark(std::span<const Packet> packets);

  std::span<uint8_t> memory_;
  PortBlock* block_{nullptr};
  uint8_t* buffers_{nullptr};
  uint8_t* held_{nullptr};
  uint32_t stride_{0};
  uint32_t n_buffers_{0};
  uint32_t n_ports_{0};
  std::array<uint64_t, kMaxPorts> direct_at_{};  ///< as checked by bind()
  uint32_t ring_capacity_{0};
  PacketConsumer to_vnf_;
  PacketProducer from_vnf_;
  NumberConsumer fill_;
  NumberProducer completion_;
  PacketConsumer direct_in_;
  PacketProducer direct_out_;
  uint32_t tx_now_{0};
  Reading rx_now_{Reading::closed};
  uint32_t rx_calls_{0};
  uint64_t malformed_{0};
};

}  // namespace headrace::shm
