// SPDX-License-Identifier: Apache-2.0
// The switch's packet buffers: one pool for frames of ordinary size, made at the start, and one for
// jumbo frames, made when the first port needs it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "eal/mempool.h"

namespace headrace::runtime {

class BufferPools {
 public:
  /// Sizes the pools from the memory that EAL got; about half of it goes to ordinary buffers, the
  /// rest is for devices, tables and jumbo frames.
  static Result<BufferPools> make(uint32_t memory_mb);

  /// The pool whose buffers hold a whole frame of this MTU (bytes of IP, 68 to 9978).
  Result<rte_mempool*> for_mtu(uint32_t mtu);
  /// The pool whose buffers hold a frame of `octets`, at most kLargestFrame.
  Result<rte_mempool*> for_frame(uint32_t octets);
  /// Octets of the largest frame that for_frame() has a pool for.
  static constexpr uint32_t kLargestFrame = 10'000;
  [[nodiscard]] rte_mempool* ordinary() const { return ordinary_.get(); }
  /// Null while no port has needed it.
  [[nodiscard]] rte_mempool* jumbo() const { return jumbo_.get(); }

 private:
  BufferPools(eal::Mempool ordinary, uint32_t memory_mb)
      : ordinary_(std::move(ordinary)), memory_mb_(memory_mb) {}

  eal::Mempool ordinary_;
  eal::Mempool jumbo_;
  uint32_t memory_mb_;
};

}  // namespace headrace::runtime
