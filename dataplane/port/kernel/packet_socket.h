// SPDX-License-Identifier: Apache-2.0
// One queue of a kernel interface by a packet socket (packet(7)), with what net_af_packet leaves
// out: checksums and segments that the sender left to its device, and the VLAN tags that the kernel
// took out of the frame, each with its own TPID.
//
// Receiving. Frames come by a mapped ring (TPACKET_V2): the kernel copies them there in the
// sender's context, and a poll that finds nothing reads one word. A slot has room for a frame of
// the interface's MTU. What is longer, a whole TCP segment of up to 64 KiB, is announced in the
// ring and waits at the socket (PACKET_COPY_THRESH, TP_STATUS_COPY), from which one recvmsg()
// scatters it into buffers: both are queued under one lock, so the order is one. TPACKET_V3 has
// slots of any size, but hands a block over when it is full or a millisecond old.
//
// Sending. sendmmsg() of a burst, each packet with its vnet header; the kernel copies it once.
//
// No PACKET_FANOUT_FLAG_DEFRAG: with it (net_af_packet sets it even for one queue) the kernel keeps
// fragments until it has all of a packet, so that one alone never arrives.
//
// Thread safety: receive() by one thread at a time, send() by any number, the rest by the control
// thread.
#pragma once

#include <linux/if_packet.h>
#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/counter.h"
#include "base/result.h"
#include "port/kernel/frame_buffers.h"
#include "port/kernel/interface.h"
#include "port/kernel/vnet_header.h"

namespace headrace::port {

/// What a receive queue has counted; written by its thread.
struct RxCounts {
  Counter packets;
  Counter octets;
  Counter errors;     ///< vnet headers that do not fit their frames
  Counter no_buffer;  ///< polls that found a frame and no buffer for it
};

/// What send() counts; one per sending thread.
struct TxCounts {
  Counter packets;
  Counter octets;
  Counter errors;  ///< that the kernel refused
};

class PacketSocket {
 public:
  struct Options {
    uint32_t slots{1024};        ///< of the ring, a power of two
    uint32_t frame{1600};        ///< octets that must fit a slot
    rte_mempool* pool{nullptr};  ///< outlives the socket
  };

  /// A socket of the interface with that index, which receives from now on.
  static Result<std::unique_ptr<PacketSocket>> open(const std::string& name, uint32_t index,
                                                    const Options& options);
  ~PacketSocket();
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  /// Joins the sockets of one port, which then share its packets by flow.
  Result<> join(uint16_t group);
  /// Another interface, of the same name as the one before: that was deleted and made again.
  Result<> bind(uint32_t index);

  uint16_t receive(std::span<rte_mbuf*> packets) noexcept;
  uint16_t send(std::span<rte_mbuf*> packets, TxCounts& counts) noexcept;

  [[nodiscard]] const RxCounts& counts() const { return counts_; }
  /// Frames that found the ring full, since open(); control thread.
  [[nodiscard]] uint64_t missed();

 private:
  PacketSocket(Descriptor socket, rte_mempool* pool);
  Result<> map(uint32_t slots, uint32_t frame);
  [[nodiscard]] tpacket2_hdr* slot(uint32_t at) noexcept;
  /// The frame of a slot; null: there is no buffer for it, or (`bad`) it is to be skipped.
  rte_mbuf* take_short(const tpacket2_hdr& slot, bool& bad) noexcept;
  rte_mbuf* take_long(const tpacket2_hdr& slot, bool& bad) noexcept;

  Descriptor socket_;
  rte_mempool* pool_;
  uint8_t* ring_{nullptr};
  size_t ring_octets_{0};
  uint32_t slot_octets_{0};
  uint32_t slots_{0};
  uint32_t head_{0};
  VnetHeader long_header_{};
  FrameBuffers long_frame_;
  RxCounts counts_;
  uint64_t missed_{0};
};

}  // namespace headrace::port
