// SPDX-License-Identifier: Apache-2.0
// An array that never moves and costs memory only where it is touched.
//
// Workers index rules and counters while the control thread adds more. A vector would move its
// elements when it grows; a list of chunks would cost workers a load per access. Address space is
// free, so the array reserves all it may ever need and the kernel supplies zeroed pages on first
// touch.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace headrace::pipeline {

/// `capacity` elements of T, all zero bytes at first. T must be fine with that.
template <typename T>
class VirtualArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit VirtualArray(size_t capacity) : bytes_(capacity * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    // Rules and counters of big tables would else miss the TLB with every packet. Advice only.
    if (bytes_ >= kHugePage) madvise(memory, bytes_, MADV_HUGEPAGE);
    elements_ = static_cast<T*>(memory);
  }
  ~VirtualArray() { munmap(elements_, bytes_); }
  VirtualArray(const VirtualArray&) = delete;
  VirtualArray& operator=(const VirtualArray&) = delete;

  T* data() { return elements_; }
  const T* data() const { return elements_; }
  T& operator[](size_t index) { return elements_[index]; }
  const T& operator[](size_t index) const { return elements_[index]; }
  /// Gives the memory of elements that nobody uses back to the kernel, as far as it is whole pages;
  /// they may be zero afterwards.
  void give_back(size_t first, size_t count) {
    constexpr uintptr_t kPage = 4096;
    const auto begin = (reinterpret_cast<uintptr_t>(elements_ + first) + kPage - 1) & ~(kPage - 1);
    const auto end = reinterpret_cast<uintptr_t>(elements_ + first + count) & ~(kPage - 1);
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  [[nodiscard]] size_t capacity() const { return bytes_ / sizeof(T); }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  size_t bytes_;
  T* elements_;
};

}  // namespace headrace::pipeline
