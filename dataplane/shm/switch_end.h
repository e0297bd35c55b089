// SPDX-License-Identifier: Apache-2.0
// The switch's end of a region's ports: buffers, their owners, and the checks of what VNFs write.
//
// Ownership: for each buffer the switch records, in its own memory, whether the switch owns it or
// the group's VNFs do. A buffer number from a VNF is accepted only if it is below n_buffers and
// recorded as the VNFs'; the switch owns the buffer from then on. So a VNF can neither send a
// buffer that the switch uses nor send one twice. Between VNFs of one group nothing is enforced:
// they share a trust group by design. Slots are copied once, checked, and used from the copy.
//
// A VNF that has exited: reclaim() recovers the buffers that its port held (its marks, layout.h)
// and those in the port's rings, unless another port marks them or another ring holds them, then
// empties the rings. Buffers whose marks a faulty VNF erased are found in no mark and no ring. They
// are recovered when two reclaims in a row find them so (at one of them a running VNF may be moving
// the buffer), or when the last VNF of the group exits.
//
// Threads: one worker uses a region's ports at a time, or the control thread while no worker does.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/region.h"
#include "shm/ring.h"

namespace headrace::shm {

/// What was wrong with what a VNF wrote.
struct Offences {
  uint64_t number{0};  ///< a buffer number out of range or not the VNF's to send
  uint64_t length{0};  ///< a packet that is not inside its buffer
  uint64_t ring{0};    ///< ring positions that can't be; the ring is not read any more
};

/// The buffers that the switch owns and does not use. All of a region's are in it at the start.
class BufferPool {
 public:
  virtual ~BufferPool() = default;
  /// Fills a prefix of `buffers`; its length.
  virtual uint32_t take(std::span<uint32_t> buffers) = 0;
  virtual void give(std::span<const uint32_t> buffers) = 0;
};

class SwitchEnd {
 public:
  /// `region` and `pool` must outlive it.
  SwitchEnd(Region& region, BufferPool& pool);

  [[nodiscard]] Region& region() const { return *region_; }

  /// Packets that the port's VNF sent: a prefix of `packets`; how many. The switch owns them now,
  /// and they are checked: the octets [begin, begin + length) are inside their buffer.
  uint32_t receive(uint32_t port, std::span<Packet> packets);
  /// Hands packets to the port's VNF: a prefix; its length.
  uint32_t send(uint32_t port, std::span<const Packet> packets);
  /// Takes back completed buffers and refills the VNF's ring of empty ones to `level`.
  void refill(uint32_t port, uint32_t level);
  /// True once the port's VNF has taken an empty buffer.
  [[nodiscard]] bool has_taken(uint32_t port) const { return ports_[port].has_taken; }
  /// Takes back all that a VNF held, or that waits for it, and resets the port's rings.
  void reclaim(uint32_t port);
  /// Takes back all buffers that are out: no VNF uses the region.
  void reclaim_all();

  [[nodiscard]] const Offences& offences(uint32_t port) const { return ports_[port].offences; }
  /// True if the buffer is out with the VNFs.
  [[nodiscard]] bool is_out(uint32_t buffer) const { return out_[buffer] != 0; }
  /// Numbers handed to the port's VNF so far, wrapping: for LinkWords::rx_after.
  [[nodiscard]] uint32_t sent_position(uint32_t port) const {
    return ports_[port].to_vnf.position();
  }

 private:
  struct Port {
    PacketProducer to_vnf;
    PacketConsumer from_vnf;
    NumberProducer fill;
    NumberConsumer completion;
    bool has_taken{false};
    Offences offences;
  };

  void open_rings(uint32_t port);
  bool accept(Port& port, uint32_t buffer);
  void claim_for_others(uint32_t port);
  void give(uint32_t buffer) { pool_->give({&buffer, 1}); }

  Region* region_;
  BufferPool* pool_;
  std::vector<Port> ports_;
  std::vector<uint8_t> out_;
  std::vector<uint8_t> claimed_;  ///< reclaim()'s scratch; preallocated: a worker may call it
  std::vector<uint8_t> missed_;   ///< the VNFs', but in no mark and no ring at the last reclaim
};

}  // namespace headrace::shm
