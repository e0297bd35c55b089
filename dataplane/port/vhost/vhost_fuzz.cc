// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: a front-end that does anything. It shares memory, sets up two vrings in one of
// the ways that are negotiated, and then sends messages, writes to its memory, truncates it, breaks
// off and connects again, while a worker takes packets from it and sends to it by the port's real
// data path and librte_vhost.
//
// Whatever it does: a packet that arrives is one chain of the length that it says, what is noted to
// be left of it lies in its first buffer, no more buffers are taken than a burst may have, and all
// are back at the end.
//
// The input: one octet that chooses the features, one for the size of the vrings, then steps, each
// an octet for what and the octets that this reads.
#include <fcntl.h>
#include <poll.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "eal/eal.h"
#include "eal/mempool.h"
#include "packet/offload.h"
#include "pipeline/terms/port_io.h"
#include "port/vhost/data_path.h"
#include "port/vhost/device.h"

namespace headrace::port::vhost {
namespace {

constexpr uint32_t kBuffers = 4095;
constexpr size_t kMemory = 1 << 20;
constexpr uint64_t kUserBase = 0x7f00'0000'0000;  // where it says that its memory is
constexpr size_t kVringMemory = 1 << 18;  // of each vring: its rings, then what it describes
constexpr uint64_t kRings[] = {0, 1 << 14, 1 << 15};  // descriptors, available, used
constexpr uint32_t kVersion = 1;
constexpr uint32_t kNeedReply = 8;
constexpr int kReplyMs = 100;

enum Request : uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kSetMemTable = 5,
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kSetVringKick = 12,
  kSetVringCall = 13,
  kSetProtocolFeatures = 16,
  kSetVringEnable = 18,
};

void require(bool holds) {
  if (!holds) std::abort();
}

/// The switch's side, made once.
struct Switch {
  Switch() {
    require(log::init("vhost_fuzz", "off").has_value());
    auto made = eal::Eal::init({.file_prefix = "vhost-fuzz-" + std::to_string(::getpid()),
                                .memory_mb = 64,
                                .allow_hugepages = false,
                                .log_level = "error"});
    require(made.has_value());
    eal = std::move(*made);
    rte_log_set_global_level(RTE_LOG_EMERG);
    auto buffers = eal::make_mempool({.name = "fuzz", .buffers = kBuffers, .cache = 0});
    require(buffers.has_value());
    pool = std::move(*buffers);
    auto frames = FramePool::of(pool.get());
    require(frames.has_value());
    data = std::make_unique<DataPath>(DataPathConfig{.pool = *frames});
    // The worker is in no call while it holds no lock.
    auto opened =
        Device::open({.name = "fuzz",
                      .socket = socket,
                      .wait_for_workers = [this] { const std::lock_guard lock(working); }},
                     *data);
    require(opened.has_value());
    device = std::move(*opened);
  }

  std::string socket{"/tmp/vhost-fuzz-" + std::to_string(::getpid())};
  std::mutex working;
  std::unique_ptr<eal::Eal> eal;
  eal::Mempool pool;
  std::unique_ptr<DataPath> data;
  std::unique_ptr<Device> device;
};

Switch& the_switch() {
  static auto* made = new Switch;  // the process ends without it
  return *made;
}

class Input {
 public:
  explicit Input(std::span<const uint8_t> octets) : octets_(octets) {}
  [[nodiscard]] bool empty() const { return octets_.empty(); }
  template <typename Number>
  Number take() {
    Number number{};
    const size_t size = std::min(sizeof number, octets_.size());
    std::memcpy(&number, octets_.data(), size);
    octets_ = octets_.subspan(size);
    return number;
  }
  std::span<const uint8_t> take_many(size_t wanted) {
    const auto some = octets_.first(std::min(wanted, octets_.size()));
    octets_ = octets_.subspan(some.size());
    return some;
  }

 private:
  std::span<const uint8_t> octets_;
};

struct Message {
  uint32_t request;
  uint32_t flags;
  uint32_t size;
  std::array<uint8_t, 256> payload;
};

/// The guest's side.
class FrontEnd {
 public:
  FrontEnd(uint8_t features, uint8_t size) : features_(features), size_(1u << size % 11) {
    memory_file_ = ::memfd_create("front-end", MFD_CLOEXEC);
    event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    require(::ftruncate(memory_file_, kMemory) == 0);
    connect();
  }
  ~FrontEnd() {
    ::close(socket_);
    ::close(memory_file_);
    ::close(event_);
  }
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  /// Breaks off, and starts as it should.
  void connect() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    the_switch().socket.copy(address.sun_path, sizeof address.sun_path - 1);
    require(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    require(::ftruncate(memory_file_, kMemory) == 0);
    send(kSetOwner, {});
    send(kSetProtocolFeatures, words<uint64_t>({1 | 1 << 3}));
    // The features by bits: packed, mergeable, what guests leave and take, in-order, indirect.
    uint64_t features = 1ULL << 30 | 1ULL << 32;
    for (const auto& [bit, those] :
         std::array<std::pair<unsigned, uint64_t>, 6>{{{0, 1ULL << 34},
                                                       {1, 1ULL << 15},
                                                       {2, 1ULL << 0 | 1ULL << 11 | 1ULL << 12},
                                                       {3, 1ULL << 1 | 1ULL << 7 | 1ULL << 8},
                                                       {4, 1ULL << 35},
                                                       {5, 1ULL << 28}}}) {
      if ((features_ >> bit & 1) != 0) features |= those;
    }
    send(kSetFeatures, words<uint64_t>({features}));
    send(kSetMemTable, words<uint64_t>({1, 0, kMemory, kUserBase, 0}), memory_file_);
    for (uint32_t vring = 0; vring < 2; ++vring) {
      const uint64_t at = kUserBase + vring * kVringMemory;
      send(kSetVringNum, words<uint32_t>({vring, size_}));
      send(kSetVringBase, words<uint32_t>({vring, (features_ & 1) != 0 ? 0x8000'8000u : 0}));
      send(kSetVringAddr,
           words<uint64_t>({vring, at + kRings[0], at + kRings[2], at + kRings[1], 0}));
      send(kSetVringCall, words<uint64_t>({vring}), event_);
      send(kSetVringKick, words<uint64_t>({vring}), event_);
      send(kSetVringEnable, words<uint32_t>({vring, 1}));
    }
    wait_for_switch();
  }

  void send(uint32_t request, std::span<const uint8_t> payload, int file = -1,
            uint32_t flags = kVersion) const {
    Message message{.request = request,
                    .flags = flags,
                    .size = static_cast<uint32_t>(payload.size()),
                    .payload = {}};
    std::copy(payload.begin(), payload.end(), message.payload.begin());
    iovec part{&message, 12 + payload.size()};
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

  /// Until the switch has handled all messages, or has closed the connection, or says nothing.
  void wait_for_switch() const {
    send(kGetFeatures, {});
    std::array<uint8_t, 4096> ignored;
    pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kReplyMs) > 0) {
      (void)::recv(socket_, ignored.data(), ignored.size(), MSG_DONTWAIT);
    }
  }

  void write(size_t at, std::span<const uint8_t> octets) const {
    (void)::pwrite(memory_file_, octets.data(), octets.size(), static_cast<off_t>(at % kMemory));
  }

  /// A descriptor of a split or of a packed ring, and what makes it available.
  void describe(Input& input) {
    const uint32_t vring = input.take<uint8_t>() % 2;
    const auto slot = static_cast<uint16_t>(input.take<uint8_t>() % size_);
    const auto far = input.take<uint8_t>();
    const uint64_t address = far < 240 ? far * 4096u : kMemory - 256 + far;
    const uint32_t length = input.take<uint16_t>() * (far == 255 ? 65537u : 1u);
    const auto flags = input.take<uint8_t>();
    const auto next = input.take<uint8_t>();
    std::array<uint8_t, 16> descriptor{};
    std::memcpy(&descriptor[0], &address, 8);
    std::memcpy(&descriptor[8], &length, 4);
    const size_t ring = vring * kVringMemory;
    if ((features_ & 1) != 0) {
      const uint16_t id = next;
      const auto bits =
          static_cast<uint16_t>((flags & 7) | (flags >> 3 & 1) << 7 | (flags >> 4 & 1) << 15);
      std::memcpy(&descriptor[12], &id, 2);
      std::memcpy(&descriptor[14], &bits, 2);
      write(ring + slot * 16u, descriptor);
      return;
    }
    const uint16_t bits = flags & 7;
    const uint16_t following = next;
    std::memcpy(&descriptor[12], &bits, 2);
    std::memcpy(&descriptor[14], &following, 2);
    write(ring + slot * 16u, descriptor);
    if ((flags & 0x80) != 0) return;
    uint16_t& index = available_[vring];
    const std::array<uint16_t, 1> entry{slot};
    write(ring + kRings[1] + 4 + 2u * (index % size_), octets_of(entry));
    const std::array<uint16_t, 2> head{0, ++index};
    write(ring + kRings[1], octets_of(head));
  }

  void truncate(uint8_t pages) const {
    require(::ftruncate(memory_file_, static_cast<off_t>(pages) * 4096) == 0);
  }

  [[nodiscard]] int file(uint8_t which) const {
    const std::array<int, 3> files{-1, memory_file_, event_};
    return files[which % files.size()];
  }

 private:
  template <typename Number>
  static std::vector<uint8_t> words(std::initializer_list<Number> numbers) {
    std::vector<uint8_t> octets(numbers.size() * sizeof(Number));
    std::memcpy(octets.data(), numbers.begin(), octets.size());
    return octets;
  }
  template <typename Numbers>
  static std::span<const uint8_t> octets_of(const Numbers& numbers) {
    return {reinterpret_cast<const uint8_t*>(numbers.data()), sizeof numbers};
  }

  uint8_t features_;
  uint32_t size_;
  int socket_{-1};
  int memory_file_;
  int event_;
  std::array<uint16_t, 2> available_{};
};

/// What a worker does with what it gets: looks at all of it, and cuts it as an exit would.
void look_at(rte_mbuf* packet) {
  uint32_t octets = 0;
  uint32_t buffers = 0;
  uint32_t sum = 0;
  for (const rte_mbuf* each = packet; each != nullptr; each = each->next) {
    const auto* data = rte_pktmbuf_mtod(each, const uint8_t*);
    for (uint16_t i = 0; i < each->data_len; i = static_cast<uint16_t>(i + 64)) sum += data[i];
    octets += each->data_len;
    ++buffers;
  }
  volatile uint32_t seen = sum;
  (void)seen;
  require(octets == packet->pkt_len && buffers == packet->nb_segs);
  if (packet::offload_left(packet)) {
    require(packet::l4_offset(packet) + 8 <= packet->data_len);
  }
  if (packet::segments_left(packet)) {
    require(packet->tso_segsz != 0 && packet->l4_len != 0);
    packet::Segments segments(packet);
    while (rte_mbuf* segment = segments.next()) rte_pktmbuf_free(segment);
  } else if (packet::offload_left(packet)) {
    packet::finish_checksum(packet);
  }
}

void receive() {
  Switch& sw = the_switch();
  const std::lock_guard lock(sw.working);
  std::array<rte_mbuf*, pipeline::kBurst> burst;
  const uint16_t count = sw.data->rx(0, burst);
  require(kBuffers - rte_mempool_avail_count(sw.pool.get()) <= pipeline::kBurst * 33u);
  for (uint16_t i = 0; i < count; ++i) look_at(burst[i]);
  rte_pktmbuf_free_bulk(burst.data(), count);
}

void transmit(uint16_t octets, uint8_t count) {
  Switch& sw = the_switch();
  const std::lock_guard lock(sw.working);
  std::array<rte_mbuf*, pipeline::kBurst> burst;
  count = static_cast<uint8_t>(1 + count % pipeline::kBurst);
  require(rte_pktmbuf_alloc_bulk(sw.pool.get(), burst.data(), count) == 0);
  constexpr uint16_t kHeaders = 54;
  octets = std::clamp<uint16_t>(octets, kHeaders, 2048);
  for (uint8_t i = 0; i < count; ++i) {
    rte_mbuf* packet = burst[i];
    std::memset(rte_pktmbuf_append(packet, octets), 0x45, octets);
    if ((sw.data->takes() & RTE_MBUF_F_TX_TCP_SEG) == 0 || octets % 2 == 0) continue;
    packet->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_IPV4;
    packet->l2_len = 14;
    packet->l3_len = 20;
    packet->l4_len = 20;
    packet->tso_segsz = 100;
  }
  const uint16_t sent = sw.data->tx(0, {burst.data(), count});
  rte_pktmbuf_free_bulk(&burst[sent], count - sent);
}

void step(FrontEnd& front, Input& input) {
  switch (input.take<uint8_t>() % 8) {
    case 0: {
      const uint32_t request = input.take<uint8_t>() % 48;
      const uint32_t flags = input.take<uint8_t>() % 2 == 0 ? kVersion : kVersion | kNeedReply;
      const int file = front.file(input.take<uint8_t>());
      front.send(request, input.take_many(input.take<uint8_t>()), file, flags);
      front.wait_for_switch();
      break;
    }
    case 1: {
      const auto at = input.take<uint32_t>();
      front.write(at, input.take_many(input.take<uint8_t>()));
      break;
    }
    case 2:
    case 3:
      front.describe(input);
      break;
    case 4:
      receive();
      break;
    case 5: {
      const auto octets = input.take<uint16_t>();
      transmit(octets, input.take<uint8_t>());
      break;
    }
    case 6:
      front.truncate(input.take<uint8_t>());
      break;
    default:
      front.connect();
      break;
  }
}

}  // namespace
}  // namespace headrace::port::vhost

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::port::vhost;
  constexpr int kMostSteps = 200;
  Input input({data, size});
  const auto features = input.take<uint8_t>();
  {
    FrontEnd front(features, input.take<uint8_t>());
    for (int steps = 0; !input.empty() && steps < kMostSteps; ++steps) step(front, input);
    receive();
    transmit(60, 4);
    (void)the_switch().device->look();
  }
  require(rte_mempool_avail_count(the_switch().pool.get()) == kBuffers);
  return 0;
}
