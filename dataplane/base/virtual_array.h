// SPDX-License-Identifier: Apache-2.0
// An array that never moves and costs memory only where it is touched.
//
// Workers index rules and counters while the control thread adds more. A vector would move its
// elements when it grows; a list of chunks would cost workers a load per access. Address space is
// free, so the array reserves all it may ever need and the kernel supplies zeroed pages on first
// touch.
//
// Rules and counters of large tables would miss the TLB with every packet, so they are to lie on
// huge pages. An array of which a few elements are used is not: each of a bridge's would take 2 MiB
// for them. So an array that is filled from its begin (Pages::as_used) is told by expect() how far.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace headrace {

/// When an array asks for huge pages.
enum class Pages : uint8_t {
  huge,     ///< at once: elements are used in any order
  as_used,  ///< when expect() says that many are used
};

/// `capacity` elements of T, all zero bytes at first. T must be fine with that.
template <typename T>
class VirtualArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit VirtualArray(size_t capacity, Pages pages = Pages::huge) : bytes_(capacity * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    elements_ = static_cast<T*>(memory);
    if (pages == Pages::huge) ask_for_huge_pages();
  }
  ~VirtualArray() { munmap(elements_, bytes_); }
  VirtualArray(const VirtualArray&) = delete;
  VirtualArray& operator=(const VirtualArray&) = delete;

  T* data() { return elements_; }
  const T* data() const { return elements_; }
  T& operator[](size_t index) { return elements_[index]; }
  const T& operator[](size_t index) const { return elements_[index]; }
  /// Elements up to `index` are going to be used; one thread.
  void expect(size_t index) {
    if (!huge_ && (index + 1) * sizeof(T) >= kManyBytes) ask_for_huge_pages();
  }
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
  /// From here on a huge page costs less than it gains: 64 ordinary pages.
  static constexpr size_t kManyBytes = size_t{256} << 10;

  /// Advice only.
  void ask_for_huge_pages() {
    huge_ = true;
    if (bytes_ >= kHugePage) madvise(elements_, bytes_, MADV_HUGEPAGE);
  }

  bool huge_{false};
  size_t bytes_;
  T* elements_;
};

}  // namespace headrace
