// SPDX-License-Identifier: Apache-2.0
// A VNF's end of a port: what libheadrace-port's C calls do.
//
// Direct links. The switch asks by words in the port's block, the VNF answers by others, and
// follows only inside its own calls, so that nothing has to be locked:
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

  uint32_t rx(std::span<uint32_t> packets);
  uint32_t tx(std::span<const uint32_t> packets) { return tx(packets, *this); }
  /// The same for packets that `owner`, an end of the same region, holds.
  uint32_t tx(std::span<const uint32_t> packets, VnfEnd& owner);
  uint32_t alloc(std::span<uint32_t> buffers);
  void free(std::span<const uint32_t> buffers);
  /// Frees all that this end still owns.
  void free_all();

  [[nodiscard]] BufferHeader& header(uint32_t buffer) const {
    return *reinterpret_cast<BufferHeader*>(buffers_ + uint64_t{buffer} * stride_);
  }
  [[nodiscard]] uint8_t* data(uint32_t buffer) const {
    BufferHeader& found = header(buffer);
    return reinterpret_cast<uint8_t*>(&found + 1) + found.begin;
  }
  [[nodiscard]] uint32_t room() const { return stride_ - sizeof(BufferHeader); }
  [[nodiscard]] bool is_direct() const { return tx_now_ != 0; }
  [[nodiscard]] PortBlock& block() const { return *block_; }
  [[nodiscard]] std::span<uint8_t> memory() const { return memory_; }
  /// The first buffer's header, and what lies between two.
  [[nodiscard]] uint8_t* buffers() const { return buffers_; }
  [[nodiscard]] uint32_t stride() const { return stride_; }
  [[nodiscard]] uint32_t n_buffers() const { return n_buffers_; }

 private:
  [[nodiscard]] PortBlock& block_of(uint32_t port) const;
  void follow_tx(uint32_t wanted);
  void follow_rx();
  uint32_t take(Consumer& ring, std::span<uint32_t> packets);
  /// Makes `count` packets that were peeked at this end's own; how many of them are packets.
  uint32_t keep(Consumer& ring, std::span<uint32_t> packets, uint32_t count);
  /// Keeps the numbers that are buffers: a broken VNF of the group may send others. How many.
  uint32_t without_nonsense(std::span<uint32_t> packets) const;
  void unmark(std::span<const uint32_t> buffers);

  std::span<uint8_t> memory_;
  PortBlock* block_{nullptr};
  uint8_t* buffers_{nullptr};
  uint8_t* held_{nullptr};
  uint32_t stride_{0};
  uint32_t n_buffers_{0};
  uint32_t n_ports_{0};
  std::array<uint64_t, kMaxPorts> direct_at_{};  ///< as checked by bind()
  uint32_t ring_capacity_{0};
  Consumer to_vnf_;
  Producer from_vnf_;
  Consumer fresh_;
  Producer returned_;
  Consumer direct_in_;
  Producer direct_out_;
  uint32_t tx_now_{0};
  Reading rx_now_{Reading::closed};
  uint32_t rx_calls_{0};
};

}  // namespace headrace::shm
