// SPDX-License-Identifier: Apache-2.0
// Memory that two memif peers share.
//
// A peer that can shrink the file after it was mapped makes the next access fault (SIGBUS). So a
// peer's memory is accepted only if it is sealed against shrinking (F_SEAL_SHRINK, which libmemif,
// VPP and DPDK set), unless the operator configured that this peer may be trusted.
//
// A file may be larger than the memory behind it (sparse): whoever touches a page first has it
// allocated, and is the one that dies if there is none (SIGBUS). A peer could have the switch do so
// for as much as it says. So what it shares is bounded before it is mapped, and what is missing of
// that is allocated at once, where a failure is an error; the same goes for memory of our own.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"

namespace headrace::port::memif {

/// Owns a file descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_{-1};
};

/// A mapping, undone by the destructor: not while a worker may look at it.
class Region {
 public:
  /// Memory of our own, sealed against shrinking, with its descriptor for the peer.
  static Result<std::pair<Region, FileDescriptor>> make(uint64_t size);
  /// A peer's memory of at least `size` bytes, and at most `most`; `trusted`: it may be able to
  /// shrink.
  static Result<Region> map(const FileDescriptor& file, uint64_t size, uint64_t most, bool trusted);

  Region(Region&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Region& operator=(Region&&) = delete;
  ~Region();

  [[nodiscard]] uint64_t size() const { return size_; }
  /// Null unless all of [offset, offset + length) is inside.
  [[nodiscard]] uint8_t* at(uint64_t offset, uint64_t length) const {
    return offset <= size_ && length <= size_ - offset ? base_ + offset : nullptr;
  }

 private:
  Region(uint8_t* base, uint64_t size) : base_(base), size_(size) {}
  static Result<Region> map_all(int file, uint64_t size);

  uint8_t* base_;
  uint64_t size_;
};

}  // namespace headrace::port::memif
