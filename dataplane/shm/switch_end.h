// SPDX-License-Identifier: Apache-2.0
// The switch's end of a region's ports: buffers, their owners, and the validation of what VNFs
// write.
//
// Ownership: for each buffer the switch records, in its own memory, whether the switch owns it or
// the group's VNFs do. A buffer number from a VNF is accepted only if it is below n_buffers and
// recorded as the VNFs'; the switch owns the buffer from then on. So a VNF can neither send a
// buffer that the switch uses nor send one twice. Between VNFs of one group nothing is enforced:
// they share a trust group by design. Slots are copied once, checked, and used from the copy.
//
// A VNF that has exited: reclaim() recovers the buffers that its port held (its marks, and slots
// that it has not released; layout.h) and those in the port's rings, unless another port marks them
// or another ring holds them, then empties the rings. Buffers whose marks a faulty VNF erased have
// no mark and are in no ring. They are recovered when two consecutive reclaims find them so (during
// one of them a running VNF may be moving the buffer), or when the last VNF of the group exits.
//
// What that costs a worker: a look at all marks of the group once for all ports that are reclaimed
// together, and nothing but a pass over the buffers once no VNF is left.
//
// Threads: one worker uses a region's ports at a time, or the control thread while no worker does.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counter.h"
#include "shm/region.h"
#include "shm/ring.h"

namespace headrace::shm {

/// Counters of invalid values written by VNFs; added to by the thread that polls the port.
struct Offences {
  Counter number;  ///< a buffer number out of range or not owned by the VNFs
  Counter length;  ///< a packet that is not inside its buffer
  Counter ring;    ///< impossible ring positions; the ring is not read any more
};

/// The buffers that the switch owns and does not use. Initially all of a region's.
class BufferPool {
 public:
  virtual ~BufferPool() = default;
  /// Takes a prefix of `buffers`; returns its length.
  virtual uint32_t take(std::span<uint32_t> buffers) = 0;
  virtual void give(std::span<const uint32_t> buffers) = 0;
};

class SwitchEnd {
 public:
  /// `region` and `pool` must outlive it.
  SwitchEnd(Region& region, BufferPool& pool);

  [[nodiscard]] Region& region() const { return *region_; }

  /// Receives packets that the port's VNF sent into a prefix of `packets`; returns its length. The
  /// switch owns them now, and they are validated: the octets [begin, begin + length) are inside
  /// their buffer.
  uint32_t receive(uint32_t port, std::span<Packet> packets);
  /// Passes a prefix of the packets to the port's VNF; returns its length.
  uint32_t send(uint32_t port, std::span<const Packet> packets);
  /// Collects completed buffers and refills the VNF's ring of empty ones to `level`.
  void refill(uint32_t port, uint32_t level);
  /// Whether the port's VNF has taken an empty buffer.
  [[nodiscard]] bool has_taken(uint32_t port) const { return ports_[port].has_taken; }
  /// Recovers all buffers that a VNF held or that wait for it, and resets the port's rings.
  void reclaim(uint32_t port) { reclaim_ports(uint64_t{1} << port, 0); }
  /// The same for all of `ports`, by bit. What is in the direct rings of those in `linked`, and was
  /// not received, stays for the ports' next VNFs: another VNF may still be sending to them.
  void reclaim_ports(uint64_t ports, uint64_t linked);
  /// Recovers all buffers; no VNF may use the region.
  void reclaim_all();

  [[nodiscard]] const Offences& offences(uint32_t port) const { return ports_[port].offences; }
  /// Whether the VNFs own the buffer.
  [[nodiscard]] bool is_out(uint32_t buffer) const { return out_[buffer] != 0; }
  /// Slots sent to the port's VNF so far, wrapping: for LinkWords::rx_after.
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
  void claim_for_others(uint64_t ports, uint64_t linked);
  void reset(uint32_t port, bool linked);
  void give(uint32_t buffer) { pool_->give({&buffer, 1}); }

  Region* region_;
  BufferPool* pool_;
  std::vector<Port> ports_;
  std::vector<uint8_t> out_;
  std::vector<uint8_t> claimed_;   ///< reclaim()'s scratch; preallocated: a worker may call it
  std::vector<uint8_t> received_;  ///< likewise: in the direct rings of `linked`, but received
  std::vector<uint8_t>
      missed_;  ///< owned by VNFs, but without mark and in no ring at the last reclaim
};

}  // namespace headrace::shm
