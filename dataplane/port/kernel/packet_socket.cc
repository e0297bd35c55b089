// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/packet_socket.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "packet/bytes.h"
#include "packet/headers.h"
#include "pipeline/terms/port_io.h"
#include "port/kernel/gathered.h"

namespace headrace::port {
namespace {

using pipeline::kBurst;

constexpr size_t kVnetHeader = sizeof(VnetHeader);
constexpr size_t kAddresses = 12;
/// Long segments waiting to be received or sent; the default of 208 KiB holds two of them.
constexpr int kSocketOctets = 16 << 20;
/// Vectors of one sendmmsg(): a burst of packets in few buffers, or some in many.
constexpr size_t kVectors = 4 * kBurst;

Result<> set(int socket, int option, int value, const char* what) {
  if (::setsockopt(socket, SOL_PACKET, option, &value, sizeof value) == 0) return {};
  return fail("packet socket: {}: {}", what, std::strerror(errno));
}

uint32_t status_of(const tpacket2_hdr& slot) {
  return std::atomic_ref(const_cast<uint32_t&>(slot.tp_status)).load(std::memory_order_acquire);
}

void give_back(tpacket2_hdr& slot) {
  std::atomic_ref(slot.tp_status).store(TP_STATUS_KERNEL, std::memory_order_release);
}

/// The tag that the kernel took out of the frame, as it was; zero octets if there was none.
struct Tag {
  uint16_t octets{0};
  std::array<uint8_t, sizeof(packet::VlanTag)> bytes{};
};

Tag tag_of(const tpacket2_hdr& slot) {
  Tag tag;
  if ((slot.tp_status & TP_STATUS_VLAN_VALID) == 0) return tag;
  const bool told = (slot.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0;
  packet::store_be16(tag.bytes.data(), told ? slot.tp_vlan_tpid : uint16_t{ETH_P_8021Q});
  packet::store_be16(tag.bytes.data() + 2, slot.tp_vlan_tci);
  tag.octets = sizeof(packet::VlanTag);
  return tag;
}

}  // namespace

PacketSocket::PacketSocket(Descriptor socket, rte_mempool* pool)
    : socket_(std::move(socket)), pool_(pool) {
  long_frame_.set(pool, &long_header_, sizeof long_header_);
}

PacketSocket::~PacketSocket() {
  if (ring_ != nullptr) ::munmap(ring_, ring_octets_);
}

Result<std::unique_ptr<PacketSocket>> PacketSocket::open(const std::string& name, uint32_t index,
                                                         const Options& options) {
  // Protocol 0: nothing is received before bind().
  Descriptor made(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return fail("{}: packet socket: {}", name, std::strerror(errno));
  const int fd = made.get();
  std::unique_ptr<PacketSocket> socket(new PacketSocket(std::move(made), options.pool));
  Result<> done = set(fd, PACKET_VERSION, TPACKET_V2, "PACKET_VERSION");
  if (done) done = set(fd, PACKET_VNET_HDR, 1, "PACKET_VNET_HDR");
  // What the host itself sends by the interface is not for the switch.
  if (done) done = set(fd, PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING");
  if (done) done = set(fd, PACKET_COPY_THRESH, 1, "PACKET_COPY_THRESH");
  if (done) done = socket->map(options.slots, options.frame);
  for (const int option : {SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
    if (done && ::setsockopt(fd, SOL_SOCKET, option, &kSocketOctets, sizeof kSocketOctets) != 0) {
      done = fail("packet socket: buffers of {} octets: {}", kSocketOctets, std::strerror(errno));
    }
  }
  if (done) done = socket->bind(index);
  const packet_mreq promiscuous{.mr_ifindex = static_cast<int>(index),
                                .mr_type = PACKET_MR_PROMISC,
                                .mr_alen = 0,
                                .mr_address = {}};
  if (done &&
      ::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) != 0) {
    done = fail("packet socket: promiscuous mode: {}", std::strerror(errno));
  }
  if (!done) return fail("{}: {}", name, done.error().message);
  return socket;
}

Result<> PacketSocket::map(uint32_t slots, uint32_t frame) {
  // In front of a frame are its slot's header, an address and the vnet header, each aligned.
  const auto octets = static_cast<uint32_t>(TPACKET2_HDRLEN + kVnetHeader + 2 * TPACKET_ALIGNMENT);
  slot_octets_ = std::bit_ceil(octets + frame);
  slots_ = slots;
  const auto page = static_cast<uint32_t>(::sysconf(_SC_PAGESIZE));
  const uint32_t block = std::max(page, slot_octets_);
  const tpacket_req request{.tp_block_size = block,
                            .tp_block_nr = slots_ / (block / slot_octets_),
                            .tp_frame_size = slot_octets_,
                            .tp_frame_nr = slots_};
  if (::setsockopt(socket_.get(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0) {
    return fail("a ring of {} slots of {} octets: {}", slots_, slot_octets_, std::strerror(errno));
  }
  const size_t size = size_t{slots_} * slot_octets_;
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket_.get(), 0);
  if (memory == MAP_FAILED) return fail("the ring cannot be mapped: {}", std::strerror(errno));
  ring_ = static_cast<uint8_t*>(memory);
  ring_octets_ = size;
  return {};
}

Result<> PacketSocket::bind(uint32_t index) {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail("packet socket: bind: {}", std::strerror(errno));
  }
  return {};
}

Result<> PacketSocket::join(uint16_t group) {
  return set(socket_.get(), PACKET_FANOUT, group | PACKET_FANOUT_HASH << 16, "PACKET_FANOUT");
}

tpacket2_hdr* PacketSocket::slot(uint32_t at) noexcept {
  return reinterpret_cast<tpacket2_hdr*>(ring_ + size_t{at} * slot_octets_);
}

rte_mbuf* PacketSocket::take_short(const tpacket2_hdr& slot, bool& bad) noexcept {
  const auto* frame = reinterpret_cast<const uint8_t*>(&slot) + slot.tp_mac;
  // Longer than a slot, and the socket's memory had no room for it either; or no Ethernet frame.
  if (slot.tp_snaplen < slot.tp_len || slot.tp_snaplen < kAddresses) {
    bad = true;
    return nullptr;
  }
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_);
  if (packet == nullptr) return nullptr;
  const Tag tag = tag_of(slot);
  const uint32_t octets = slot.tp_snaplen + tag.octets;
  auto* to = reinterpret_cast<uint8_t*>(
      octets > UINT16_MAX ? nullptr : rte_pktmbuf_append(packet, static_cast<uint16_t>(octets)));
  if (to == nullptr) {
    rte_pktmbuf_free(packet);
    bad = true;
    return nullptr;
  }
  std::memcpy(to, frame, kAddresses);
  std::memcpy(to + kAddresses, tag.bytes.data(), tag.octets);
  std::memcpy(to + kAddresses + tag.octets, frame + kAddresses, slot.tp_snaplen - kAddresses);
  VnetHeader header;
  std::memcpy(&header, frame - kVnetHeader, kVnetHeader);
  if (take_vnet_header(header, tag.octets, packet)) return packet;
  rte_pktmbuf_free(packet);
  bad = true;
  return nullptr;
}

rte_mbuf* PacketSocket::take_long(const tpacket2_hdr& slot, bool& bad) noexcept {
  if (!long_frame_.refill()) return nullptr;
  const std::span<iovec> vector = long_frame_.vector();
  msghdr message{};
  message.msg_iov = vector.data();
  message.msg_iovlen = vector.size();
  const ssize_t octets = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  constexpr auto kLeast = static_cast<ssize_t>(kVnetHeader + kAddresses);
  if (octets < kLeast || (message.msg_flags & MSG_TRUNC) != 0) {
    bad = true;
    return nullptr;
  }
  rte_mbuf* packet = long_frame_.take(static_cast<uint32_t>(octets - ssize_t{kVnetHeader}));
  const Tag tag = tag_of(slot);
  if (tag.octets != 0) {
    auto* begin = reinterpret_cast<uint8_t*>(rte_pktmbuf_prepend(packet, tag.octets));
    std::memmove(begin, begin + tag.octets, kAddresses);
    std::memcpy(begin + kAddresses, tag.bytes.data(), tag.octets);
  }
  if (take_vnet_header(long_header_, tag.octets, packet)) return packet;
  rte_pktmbuf_free(packet);
  bad = true;
  return nullptr;
}

uint16_t PacketSocket::receive(std::span<rte_mbuf*> packets) noexcept {
  uint16_t count = 0;
  uint64_t octets = 0;
  uint64_t errors = 0;
  while (count < packets.size()) {
    tpacket2_hdr* next = slot(head_);
    const uint32_t status = status_of(*next);
    if ((status & TP_STATUS_USER) == 0) break;
    bool bad = false;
    rte_mbuf* packet =
        (status & TP_STATUS_COPY) != 0 ? take_long(*next, bad) : take_short(*next, bad);
    if (packet == nullptr && !bad) {
      counts_.no_buffer.add(1);
      break;  // it stays where it is until there is a buffer
    }
    give_back(*next);
    head_ = head_ + 1 == slots_ ? 0 : head_ + 1;
    if (bad) {
      ++errors;
      continue;
    }
    octets += packet->pkt_len;
    packets[count++] = packet;
  }
  if (count != 0) {
    counts_.packets.add(count);
    counts_.octets.add(octets);
  }
  if (errors != 0) counts_.errors.add(errors);
  return count;
}

uint16_t PacketSocket::send(std::span<rte_mbuf*> packets, TxCounts& counts) noexcept {
  std::array<mmsghdr, kBurst> messages;
  std::array<VnetHeader, kBurst> headers;
  std::array<iovec, kVectors> vectors;
  uint16_t done = 0;
  while (done < packets.size()) {
    unsigned built = 0;
    size_t used = 0;
    while (built < kBurst && done + built < packets.size()) {
      const rte_mbuf* packet = packets[done + built];
      headers[built] = vnet_header_of(packet);
      const size_t taken =
          gather(packet, &headers[built], kVnetHeader, std::span(vectors).subspan(used));
      if (taken == 0) break;
      messages[built] = {};
      messages[built].msg_hdr.msg_iov = &vectors[used];
      messages[built].msg_hdr.msg_iovlen = taken;
      used += taken;
      ++built;
    }
    // Nothing built: more buffers than any frame needs.
    const int sent =
        built == 0 ? -1 : ::sendmmsg(socket_.get(), messages.data(), built, MSG_DONTWAIT);
    if (sent < 0 && built != 0 && (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)) break;
    const auto gone = static_cast<uint16_t>(sent < 0 ? 1 : sent);
    uint64_t octets = 0;
    for (uint16_t i = done; i < done + gone; ++i) octets += packets[i]->pkt_len;
    if (sent < 0) {
      counts.errors.add(1);  // the first of them is what the kernel refused
    } else {
      counts.packets.add(gone);
      counts.octets.add(octets);
    }
    rte_pktmbuf_free_bulk(&packets[done], gone);
    done = static_cast<uint16_t>(done + gone);
  }
  return done;
}

uint64_t PacketSocket::missed() {
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  // Reading sets the kernel's count to 0.
  if (::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0) {
    missed_ += stats.tp_drops;
  }
  return missed_;
}

}  // namespace headrace::port
