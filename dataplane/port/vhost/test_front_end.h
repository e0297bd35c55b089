// SPDX-License-Identifier: Apache-2.0
// For tests: a port's data path with its librte_vhost device, and a front-end that shares memory
// with it and sends whatever messages a test wants.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <rte_log.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "eal/eal.h"
#include "eal/mempool.h"
#include "port/vhost/data_path.h"
#include "port/vhost/device.h"

namespace headrace::port::vhost {

inline constexpr uint32_t kBuffers = 4095;
inline constexpr size_t kMemory = 1 << 20;
inline constexpr uint64_t kUserBase = 0x7f00'0000'0000;  // where it says that its memory is
inline constexpr size_t kVringMemory = 1 << 18;  // of each vring: its rings, then what it describes
inline constexpr uint64_t kRings[] = {0, 1 << 14, 1 << 15};  // descriptors, driver's, device's
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kNeedReply = 8;
inline constexpr int kReplyMs = 100;

inline constexpr uint64_t kEventIndex = 1ULL << 29;
inline constexpr uint64_t kPacked = 1ULL << 34;

enum Request : uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kSetMemTable = 5,
  kSetLogBase = 6,
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kSetVringKick = 12,
  kSetVringCall = 13,
  kSetProtocolFeatures = 16,
  kSetVringEnable = 18,
  kSendRarp = 19,
};

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// The switch's side of one port, made once.
struct TestSwitch {
  TestSwitch() {
    require(log::init("vhost", "off").has_value());
    auto made = eal::Eal::init({.file_prefix = "vhost-test-" + std::to_string(::getpid()),
                                .memory_mb = 64,
                                .allow_hugepages = false,
                                .log_level = "error"});
    require(made.has_value());
    eal = std::move(*made);
    rte_log_set_global_level(RTE_LOG_EMERG);
    auto buffers = eal::make_mempool({.name = "test", .buffers = kBuffers, .cache = 0});
    require(buffers.has_value());
    pool = std::move(*buffers);
    auto frames = FramePool::of(pool.get());
    require(frames.has_value());
    data = std::make_unique<DataPath>(DataPathConfig{.pool = *frames});
    // The worker is in no call while it holds no lock.
    auto opened =
        Device::open({.name = "test",
                      .socket = socket,
                      .wait_for_workers = [this] { const std::lock_guard lock(working); }},
                     *data);
    require(opened.has_value());
    device = std::move(*opened);
  }

  std::string socket{"/tmp/vhost-test-" + std::to_string(::getpid())};
  std::mutex working;
  std::unique_ptr<eal::Eal> eal;
  eal::Mempool pool;
  std::unique_ptr<DataPath> data;
  std::unique_ptr<Device> device;
};

inline TestSwitch& the_switch() {
  static auto* made = new TestSwitch;  // the process ends without it
  return *made;
}

/// As vhost-user has it.
struct Message {
  uint32_t request;
  uint32_t flags;
  uint32_t size;
  std::array<uint8_t, 256> payload;
};
inline constexpr ssize_t kHeader = offsetof(Message, payload);

/// The guest's side, with two vrings of `size` descriptors.
class FrontEnd {
 public:
  /// `features` besides those that all have: vhost-user's protocol features and virtio 1.
  FrontEnd(uint64_t features, uint32_t size) : features_(features), size_(size) {
    memory_file_ = ::memfd_create("front-end", MFD_CLOEXEC);
    event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    require(::ftruncate(memory_file_, kMemory) == 0);
    connect();
  }
  ~FrontEnd() {
    hang_up();
    ::close(memory_file_);
    ::close(event_);
  }
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  [[nodiscard]] bool is_packed() const { return (features_ & kPacked) != 0; }
  [[nodiscard]] uint32_t size() const { return size_; }

  /// Breaks off, and starts as it should.
  void connect() {
    hang_up();
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{.tv_sec = 0, .tv_usec = kReplyMs * 1000};
    require(::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    the_switch().socket.copy(address.sun_path, sizeof address.sun_path - 1);
    require(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    require(::ftruncate(memory_file_, kMemory) == 0);
    send(kSetOwner, {});
    send(kSetProtocolFeatures, words<uint64_t>({1 | 1 << 3}));
    send(kSetFeatures, words<uint64_t>({features_ | 1ULL << 30 | 1ULL << 32}));
    send(kSetMemTable, words<uint64_t>({1, 0, kMemory, kUserBase, 0}), memory_file_);
    for (uint32_t vring = 0; vring < 2; ++vring) {
      send(kSetVringNum, words<uint32_t>({vring, size_}));
      send(kSetVringBase, words<uint32_t>({vring, is_packed() ? 0x8000'8000u : 0}));
      send(kSetVringAddr, address_of(vring, vring * kVringMemory));
      send(kSetVringCall, words<uint64_t>({vring}), event_);
      send(kSetVringKick, words<uint64_t>({vring}), event_);
      send(kSetVringEnable, words<uint32_t>({vring, 1}));
    }
    wait_for_switch();
  }

  void hang_up() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  void send(uint32_t request, std::span<const uint8_t> payload, int file = -1,
            uint32_t flags = kVersion) const {
    Message message{.request = request,
                    .flags = flags,
                    .size = static_cast<uint32_t>(payload.size()),
                    .payload = {}};
    std::copy(payload.begin(), payload.end(), message.payload.begin());
    iovec part{&message, kHeader + payload.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof file)> ancillary{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (file >= 0) {
      header.msg_control = ancillary.data();
      header.msg_controllen = ancillary.size();
      cmsghdr* files = CMSG_FIRSTHDR(&header);
      files->cmsg_level = SOL_SOCKET;
      files->cmsg_type = SCM_RIGHTS;
      files->cmsg_len = CMSG_LEN(sizeof file);
      std::memcpy(CMSG_DATA(files), &file, sizeof file);
    }
    (void)::sendmsg(socket_, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  /// What says that the descriptors of a vring are at `descriptors` of its memory, and the rest
  /// where it is by default.
  [[nodiscard]] static std::vector<uint8_t> address_of(uint64_t vring, uint64_t descriptors) {
    const uint64_t at = kUserBase + vring * kVringMemory;
    return words<uint64_t>({vring, kUserBase + descriptors, at + kRings[2], at + kRings[1], 0});
  }

  /// Until the switch has answered all messages, or has closed the connection, or says nothing.
  bool wait_for_switch() const {
    send(kGetFeatures, {});
    return has_answer(kGetFeatures, kReplyMs);
  }

  /// Sends a message that has no answer of its own, and returns when the port has done all that it
  /// does upon it, but that the vring's state may change after. Whether the connection is kept.
  [[nodiscard]] bool finish(uint32_t request, std::span<const uint8_t> payload,
                            int file = -1) const {
    constexpr int kPatienceMs = 10'000;
    send(request, payload, file, kVersion | kNeedReply);
    return has_answer(request, kPatienceMs);
  }

  void write(size_t at, std::span<const uint8_t> octets) const {
    (void)::pwrite(memory_file_, octets.data(), octets.size(), static_cast<off_t>(at % kMemory));
  }
  /// What it reads beyond the end of its memory is 0.
  void read(size_t at, std::span<uint8_t> octets) const {
    std::fill(octets.begin(), octets.end(), uint8_t{0});
    (void)::pread(memory_file_, octets.data(), octets.size(), static_cast<off_t>(at % kMemory));
  }

  void truncate(uint8_t pages) const {
    require(::ftruncate(memory_file_, static_cast<off_t>(pages) * 4096) == 0);
  }

  [[nodiscard]] int file(uint8_t which) const {
    const std::array<int, 3> files{-1, memory_file_, event_};
    return files[which % files.size()];
  }

  /// Times that it was kicked since it was asked last.
  [[nodiscard]] uint64_t kicks() const {
    uint64_t count = 0;
    return ::read(event_, &count, sizeof count) == sizeof count ? count : 0;
  }

  template <typename Number>
  static std::vector<uint8_t> words(std::initializer_list<Number> numbers) {
    std::vector<uint8_t> octets(numbers.size() * sizeof(Number));
    std::memcpy(octets.data(), numbers.begin(), octets.size());
    return octets;
  }

 private:
  /// Reads answers up to that to `request`.
  bool has_answer(uint32_t request, int patience_ms) const {
    while (true) {
      Message reply;
      pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, patience_ms) <= 0) return false;
      if (::recv(socket_, &reply, kHeader, MSG_WAITALL) != kHeader) return false;
      const auto rest = static_cast<ssize_t>(std::min<size_t>(reply.size, reply.payload.size()));
      if (::recv(socket_, reply.payload.data(), static_cast<size_t>(rest), MSG_WAITALL) != rest)
        return false;
      if (reply.request == request) return true;
    }
  }

  uint64_t features_;
  uint32_t size_;
  int socket_{-1};
  int memory_file_;
  int event_;
};

}  // namespace headrace::port::vhost
