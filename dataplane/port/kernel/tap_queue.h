// SPDX-License-Identifier: Apache-2.0
// One queue of a tap device, with vnet headers (IFF_VNET_HDR): the kernel's stack leaves checksums
// and segmentation to us, and takes from us what others left.
//
// Thread safety: receive() by one thread at a time, send() by any number.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>

#include "port/kernel/frame_buffers.h"
#include "port/kernel/packet_socket.h"
#include "port/kernel/readiness.h"

namespace headrace::port {

class TapQueue {
 public:
  /// `file` is attached to a tap device, and does not block. `pool` and `readiness` outlive this.
  static Result<std::unique_ptr<TapQueue>> make(Descriptor file, rte_mempool* pool,
                                                Readiness& readiness);
  ~TapQueue();
  TapQueue(const TapQueue&) = delete;
  TapQueue& operator=(const TapQueue&) = delete;

  uint16_t receive(std::span<rte_mbuf*> packets) noexcept;
  uint16_t send(std::span<rte_mbuf*> packets, TxCounts& counts) noexcept;

  [[nodiscard]] int fd() const { return file_.get(); }
  [[nodiscard]] const RxCounts& counts() const { return counts_; }
  /// Must outlive this by a grace period.
  [[nodiscard]] std::shared_ptr<ReadyState> ready() const { return ready_; }

 private:
  TapQueue(Descriptor file, rte_mempool* pool, Readiness& readiness);

  Descriptor file_;
  Readiness& readiness_;
  std::shared_ptr<ReadyState> ready_{std::make_shared<ReadyState>()};
  uint32_t emptied_{0};  ///< the event after which it was read until it was empty
  VnetHeader header_{};
  FrameBuffers frame_;
  RxCounts counts_;
};

}  // namespace headrace::port
