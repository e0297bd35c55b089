// SPDX-License-Identifier: Apache-2.0
// Memory of the classifiers: zeroed, cache-line aligned, on huge pages where it is large.
//
// A look-up structure of many megabytes touched at random spends more time in the page walker than
// in the caches; transparent huge pages take that away. Small structures take what the heap gives.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace headrace::match {

inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kCacheLine = 64;

/// One zeroed allocation. Throws std::bad_alloc, as new does: control thread only.
class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes) {
    const size_t unit = bytes >= kHugePage ? kHugePage : kCacheLine;
    bytes_ = (bytes + unit - 1) / unit * unit;
    data_ = std::aligned_alloc(unit, bytes_);
    if (data_ == nullptr) throw std::bad_alloc();
    // Advice only: without huge pages the memory is the same, but slower.
    if (unit == kHugePage) madvise(data_, bytes_, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes_);
  }
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Block() { std::free(data_); }

  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  void* data_{nullptr};
  size_t bytes_{0};
};

}  // namespace headrace::match
