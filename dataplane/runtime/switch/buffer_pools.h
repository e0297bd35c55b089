// SPDX-License-Identifier: Apache-2.0
// The switch's packet buffers: per NUMA node a pool for frames of ordinary size and one for jumbo
// frames. The ordinary pool of the node where the control thread runs is made at the start, any
// other when the first port needs it.
//
// A device receives into buffers of its own node, so that neither it nor the worker there crosses
// to another node's memory. Where a node has no memory to give, its ports use the first node's
// buffers, and the log says so.
//
// Thread safety: control thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "eal/mempool.h"

namespace headrace::runtime {

class BufferPools {
 public:
  /// Sizes the pools from the memory that EAL got; about half of it goes to ordinary buffers, the
  /// rest is for devices, tables and jumbo frames. Each further node gives as much of its own.
  static Result<BufferPools> make(uint32_t memory_mb);

  /// The node of a device that has none, as rte_eth_dev_socket_id() says it.
  static constexpr int kAnyNode = -1;

  /// The pool of `node` whose buffers hold a whole frame of this MTU (bytes of IP, 68 to 9978).
  Result<rte_mempool*> for_mtu(uint32_t mtu, int node = kAnyNode);
  /// The pool whose buffers hold a frame of `octets`, at most kLargestFrame.
  Result<rte_mempool*> for_frame(uint32_t octets, int node = kAnyNode);
  /// Octets of the largest frame that for_frame() has a pool for.
  static constexpr uint32_t kLargestFrame = 10'000;
  /// All that there are; the first has ordinary buffers.
  [[nodiscard]] std::vector<rte_mempool*> all() const;

 private:
  enum class Kind : uint8_t { ordinary, jumbo };
  struct Pool {
    Kind kind;
    int node;
    eal::Mempool buffers;  ///< null: the node has no memory for it
  };

  BufferPools(uint32_t memory_mb, int first_node)
      : memory_mb_(memory_mb), first_node_(first_node) {}
  Result<rte_mempool*> of(Kind kind, int node);

  uint32_t memory_mb_;
  int first_node_;
  std::vector<Pool> pools_;
};

}  // namespace headrace::runtime
