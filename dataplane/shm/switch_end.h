// SPDX-License-Identifier: Apache-2.0
// The switch's end of a region's ports: buffers, their owners, and every check of what VNFs write.
//
// Owners. For each buffer the switch keeps, in its own memory, whether it is the switch's or out
// with the group's VNFs. A number that a VNF sends or returns is taken only if it is below
// n_buffers and out; then the switch owns it. So a VNF can't send what the switch is using, nor the
// same buffer twice; what it does to the buffers of its own group's VNFs harms that group alone, by
// design. Slots are copied once, checked, and used from the copy.
//
// A dead VNF. reclaim() takes back what a port's VNF held (its marks, layout.h) and what waits in
// the port's rings, unless another port marks it or another ring holds it; then empties the rings.
// What a VNF has wiped out of its marks is found because nobody has it: seen so at two reclaims,
// for at one a living VNF may be moving it past the eye; or when the group's last VNF goes.
//
// Threads: one worker uses a region's ports at a time, or the control thread while none does.
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
  /// Takes what the VNF is done with, and keeps `level` empty buffers ready for it.
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
  std::vector<uint8_t> claimed_;  ///< reclaim()'s: made beforehand, as a worker may call it
  std::vector<uint8_t> missed_;   ///< out, and nobody had it at the last reclaim
};

}  // namespace headrace::shm
