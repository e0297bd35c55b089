// SPDX-License-Identifier: Apache-2.0
// A kernel interface as the control thread sees it, in the network namespace that it is in.
//
// Thread safety: control thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "port/port.h"

namespace headrace::port {

/// A file descriptor that is closed with the object.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_{-1};
};

/// Which network namespace: the inode of its file, as in /proc/PID/ns/net.
struct NamespaceId {
  uint64_t device{0};
  uint64_t inode{0};
  bool operator==(const NamespaceId&) const = default;
};

/// Of the namespace that `fd` is a file of; zeros if it is none.
[[nodiscard]] NamespaceId namespace_id(int fd);

/// The namespace that this thread is in, as a file.
[[nodiscard]] Descriptor own_namespace();

/// The thread is in another network namespace while this lives.
class InNamespace {
 public:
  /// `fd`: of the namespace. Check entered().
  explicit InNamespace(int fd);
  /// Back to where it was. The process ends if the kernel refuses that: all it did afterwards would
  /// be in the wrong place.
  ~InNamespace();
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;
  [[nodiscard]] bool entered() const { return entered_; }

 private:
  Descriptor back_;
  bool entered_;
};

/// A file of the namespace with that id, if a name in /run/netns or a process leads to it.
[[nodiscard]] Descriptor find_namespace(NamespaceId id);

class KernelInterface {
 public:
  /// The interface of that name in this thread's namespace.
  explicit KernelInterface(std::string name);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Henceforth the one of that name in the namespace of file `fd`; -1: this thread's own.
  void move(std::string name, int fd);

  /// 0: there is none.
  [[nodiscard]] uint32_t index() const;
  [[nodiscard]] LinkState link() const;
  [[nodiscard]] Result<> set_up(bool up) const;
  /// 0: there is no such interface.
  [[nodiscard]] uint32_t mtu() const;
  [[nodiscard]] Result<> set_mtu(uint32_t mtu) const;
  /// Zeros: there is no such interface.
  [[nodiscard]] MacAddress mac() const;
  [[nodiscard]] Result<> set_mac(const MacAddress& mac) const;

 private:
  std::string name_;
  Descriptor socket_;  ///< of the interface's namespace
};

}  // namespace headrace::port
