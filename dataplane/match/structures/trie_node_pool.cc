// SPDX-License-Identifier: Apache-2.0
#include "match/structures/trie_node_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

#include "match/structures/block.h"

namespace headrace::match {
namespace {

constexpr size_t kReserved = size_t{TrieNodePool::kLimit} * sizeof(Node);
constexpr uint32_t kFirstCommit = 64;                               // 64 KiB
constexpr uint32_t kLargestCommit = 32 * kHugePage / sizeof(Node);  // 64 MiB

}  // namespace

TrieNodePool::TrieNodePool() {
  void* reserved =
      mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<Node*>(reserved);
  madvise(reserved, kReserved, MADV_HUGEPAGE);
  if (!commit(kFirstCommit)) throw std::bad_alloc();
  base_[0].fill(0);  // a prefetch of memory that was never written ends in the page walker
}

TrieNodePool::~TrieNodePool() {
  munmap(base_, kReserved);
}

bool TrieNodePool::has_room(size_t count) const {
  return count <= free_.size() + (kLimit - used_);
}

bool TrieNodePool::commit(uint32_t count) {
  if (mprotect(base_ + committed_, size_t{count} * sizeof(Node), PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  committed_ += count;
  return true;
}

bool TrieNodePool::copy(const TrieNodePool& other) {
  assert(used_ == 0);
  if (committed_ < other.committed_ && !commit(other.committed_ - committed_)) return false;
  std::memcpy(base_, other.base_, size_t{other.used_} * sizeof(Node));
  used_ = other.used_;
  return true;
}

uint32_t TrieNodePool::take() {
  assert(has_room(1));
  if (!free_.empty()) {
    const uint32_t number = free_.back();
    free_.pop_back();
    return number;
  }
  if (used_ == committed_) {
    const uint32_t wish = std::min(committed_, kLargestCommit);
    if (!commit(std::min(wish, kLimit - committed_))) throw std::bad_alloc();
  }
  return used_++;
}

}  // namespace headrace::match
