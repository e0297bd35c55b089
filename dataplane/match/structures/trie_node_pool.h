// SPDX-License-Identifier: Apache-2.0
// The nodes of a multi-bit trie: numbered, never moved, committed as they are needed.
//
// A node's address is base + number * size, so that look-ups need no table of chunks, and readers
// are never in the way of growth: address space for all nodes is reserved at the start, which costs
// nothing, and made readable piece by piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::match {

/// One node: an entry per value of the octet that it branches on.
using Node = std::array<uint32_t, 256>;
static_assert(sizeof(Node) == 1024);

class TrieNodePool {
 public:
  /// At most this many nodes in a table: 4 GiB.
  static constexpr uint32_t kLimit = uint32_t{4} << 20;

  /// Throws std::bad_alloc without address space.
  TrieNodePool();
  TrieNodePool(const TrieNodePool&) = delete;
  TrieNodePool& operator=(const TrieNodePool&) = delete;
  ~TrieNodePool();

  /// Node 0 may be read even before it is taken.
  [[nodiscard]] Node* base() const { return base_; }
  [[nodiscard]] Node& operator[](uint32_t number) const { return base_[number]; }

  /// Takes the nodes that `other` has, with what they hold; while it has none itself. False without
  /// memory for them.
  [[nodiscard]] bool copy(const TrieNodePool& other);
  /// Nodes that were ever taken: those with lower numbers.
  [[nodiscard]] uint32_t used() const { return used_; }

  /// True if `count` nodes can be taken.
  [[nodiscard]] bool has_room(size_t count) const;
  /// A node's number; its content is undefined. has_room(1) must hold.
  [[nodiscard]] uint32_t take();
  /// Gives a node back, to be used again at once.
  void give(uint32_t number) { free_.push_back(number); }

  [[nodiscard]] size_t memory_bytes() const { return size_t{committed_} * sizeof(Node); }

 private:
  bool commit(uint32_t count);

  Node* base_{nullptr};
  uint32_t committed_{0};
  uint32_t used_{0};
  std::vector<uint32_t> free_;
};

}  // namespace headrace::match
