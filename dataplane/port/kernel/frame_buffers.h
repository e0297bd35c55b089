// SPDX-License-Identifier: Apache-2.0
// Buffers for one frame of any length, up to a whole segmentation unit of 64 KiB, that a system
// call scatters into: the kernel copies once, and what it left empty stays for the next frame.
//
// Thread safety: one thread, the owner of the receive queue.
#pragma once

#include <rte_mbuf.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <span>

namespace headrace::port {

class FrameBuffers {
 public:
  /// Octets of the longest frame: IPv4's or IPv6's 64 KiB, Ethernet and two VLAN tags.
  static constexpr uint32_t kLongest = 65535 + 40 + 22;

  FrameBuffers() = default;
  ~FrameBuffers();
  FrameBuffers(const FrameBuffers&) = delete;
  FrameBuffers& operator=(const FrameBuffers&) = delete;

  /// `pool` outlives this; `header` (of `octets`) receives what is in front of the frame.
  void set(rte_mempool* pool, void* header, size_t octets);

  /// Gets what is missing; false: there are no buffers.
  [[nodiscard]] bool refill() noexcept;

  /// What readv() or recvmsg() takes: the header, then the buffers. After refill().
  [[nodiscard]] std::span<iovec> vector() noexcept { return {vector_.data(), 1 + needed_}; }

  /// The frame of `octets` that was written there.
  [[nodiscard]] rte_mbuf* take(uint32_t octets) noexcept;

 private:
  /// Of the smallest buffers, those of ordinary frames.
  static constexpr size_t kMost = 34;

  rte_mempool* pool_{nullptr};
  size_t needed_{0};       ///< buffers for the longest frame
  size_t first_empty_{0};  ///< buffers before it were taken
  std::array<rte_mbuf*, kMost> buffers_{};
  std::array<iovec, kMost + 1> vector_{};
};

}  // namespace headrace::port
