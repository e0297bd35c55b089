// SPDX-License-Identifier: Apache-2.0
#include "port/shm_port.h"

#include <rte_mbuf.h>

#include <array>
#include <bitset>
#include <optional>
#include <span>

#include "base/counter.h"
#include "port/direct_end.h"
#include "port/shm_group.h"

namespace headrace::port {
namespace {

constexpr uint32_t kFrameOverhead = 22;  ///< Ethernet header and two VLAN tags
/// Empty buffers kept ready for a VNF to send from, once it has taken any; before that, a few.
constexpr uint32_t kFreshLevel = 256;
constexpr uint32_t kFirstFreshLevel = 16;

/// Counts of one port; written by its owner, read by the control thread.
struct Counts {
  Counter rx_packets;
  Counter rx_octets;
  Counter tx_packets;
  Counter tx_octets;
  Counter tx_copied;
  Counter tx_no_buffer;
};

class ShmPort final : public Port, public pipeline::PortIo, public DirectEnd {
 public:
  ShmPort(const PortConfig& config, std::shared_ptr<ShmGroup> group, uint32_t place)
      : name_(config.name),
        group_(std::move(group)),
        ends_(group_->ends()),
        links_(group_->links()),
        place_(place),
        mac_(config.mac.value_or(MacAddress{0x02, 0x48, 0x52, 0, 0, static_cast<uint8_t>(place)})) {
  }
  ~ShmPort() override {
    links_.want(place_, std::nullopt);
    group_->remove_port(place_);
  }

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] pipeline::PortIo& io() override { return *this; }
  [[nodiscard]] uint16_t n_rx_queues() const override { return 1; }
  [[nodiscard]] uint16_t n_tx_queues() const override { return 1; }
  [[nodiscard]] bool io_knows_link() const override { return true; }
  [[nodiscard]] const void* owner_group() const override { return group_.get(); }
  [[nodiscard]] DirectEnd* direct_end() override { return this; }
  LinkState link() override { return {.up = group_->attached(place_)}; }
  [[nodiscard]] MacAddress mac() const override { return mac_; }
  [[nodiscard]] uint32_t mtu() const override {
    return group_->region().config().buffer_room - shm::kHeadroom - kFrameOverhead;
  }
  [[nodiscard]] std::optional<uint32_t> ifindex() const override { return std::nullopt; }
  Result<> set_mtu(uint32_t wanted) override {
    if (wanted <= mtu()) return {};
    return fail(
        "{}: an MTU of {} does not fit the group's buffers ({}); set options:buffer-size on "
        "the group's first port",
        name_, wanted, mtu());
  }
  [[nodiscard]] std::map<std::string, int64_t> statistics() const override;
  [[nodiscard]] StringMap status() const override;

  // DirectEnd:
  [[nodiscard]] const std::string& group() const override { return group_->region().config().name; }
  [[nodiscard]] bool has_vnf() const override { return group_->attached(place_); }
  void send_to(const DirectEnd* to) override {
    const auto* port = static_cast<const ShmPort*>(to);
    links_.want(place_, port == nullptr ? std::nullopt : std::optional(port->place_));
  }
  [[nodiscard]] shm::LinkState link_state() const override { return links_.state(place_); }
  shm::DirectTraffic take_direct_traffic() override { return links_.take_traffic(place_); }

 private:
  std::string name_;
  std::shared_ptr<ShmGroup> group_;
  shm::SwitchEnd& ends_;
  shm::DirectLinks& links_;
  uint32_t place_;
  MacAddress mac_;
  Counts counts_;
};

uint16_t ShmPort::rx(uint16_t /*queue*/, std::span<rte_mbuf*> packets) noexcept {
  group_->reclaim_lost();
  ends_.refill(place_, ends_.has_taken(place_) ? kFreshLevel : kFirstFreshLevel);
  if (!links_.step(place_)) return 0;
  std::array<shm::Packet, pipeline::kBurst> sent;
  const size_t room = std::min<size_t>(packets.size(), sent.size());
  const uint32_t count = ends_.receive(place_, std::span(sent).first(room));
  links_.polled(place_, count, count == room);
  ShmPackets& region = group_->packets();
  for (const shm::Packet& packet : std::span(sent).first(count)) region.prefetch(packet);
  uint64_t octets = 0;
  for (uint32_t i = 0; i < count; ++i) {
    octets += sent[i].length;
    packets[i] = region.receive(sent[i]);
  }
  if (count > 0) {
    counts_.rx_packets.add(count);
    counts_.rx_octets.add(octets);
  }
  return static_cast<uint16_t>(count);
}

uint16_t ShmPort::tx(uint16_t /*queue*/, std::span<rte_mbuf*> packets) noexcept {
  if (!group_->attached(place_)) return 0;
  ShmPackets& region = group_->packets();
  std::array<shm::Packet, pipeline::kBurst> going;
  std::bitset<pipeline::kBurst> copied;
  uint16_t count = 0;
  const size_t room = std::min<size_t>(packets.size(), going.size());
  for (; count < room; ++count) {
    std::optional<shm::Packet> described = region.to_region(packets[count]);
    if (!described) {
      described = region.copy_to_region(packets[count]);
      if (!described) break;
      copied.set(count);
    }
    going[count] = *described;
  }
  if (count < room) counts_.tx_no_buffer.add(1);
  const uint32_t sent = ends_.send(place_, std::span(going).first(count));
  uint64_t octets = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i < sent) {
      octets += going[i].length;
      if (copied[i]) rte_pktmbuf_free(packets[i]);
    } else if (copied[i]) {
      rte_mbuf_raw_free(region.mbufs().mbuf(going[i].buffer));
    }
  }
  if (copied.any()) counts_.tx_copied.add(copied.count());
  counts_.tx_packets.add(sent);
  counts_.tx_octets.add(octets);
  return static_cast<uint16_t>(sent);
}

std::map<std::string, int64_t> ShmPort::statistics() const {
  const auto read = [](const Counter& counter) { return static_cast<int64_t>(counter.read()); };
  const shm::Offences& offences = ends_.offences(place_);
  return {{"rx_packets", read(counts_.rx_packets)},
          {"rx_bytes", read(counts_.rx_octets)},
          {"tx_packets", read(counts_.tx_packets)},
          {"tx_bytes", read(counts_.tx_octets)},
          {"tx_copied_packets", read(counts_.tx_copied)},
          {"tx_no_buffer_errors", read(counts_.tx_no_buffer)},
          {"rx_number_errors", read(offences.number)},
          {"rx_length_errors", read(offences.length)},
          {"rx_ring_errors", read(offences.ring)}};
}

StringMap ShmPort::status() const {
  return {{"driver_name", "headrace-shm"},
          {"group", group_->region().config().name},
          {"socket", group_->socket_path()},
          {"hugepages", group_->region().mapping().uses_hugepages() ? "true" : "false"},
          {"n_rxq", "1"},
          {"n_txq", "1"}};
}

}  // namespace

Result<std::unique_ptr<Port>> open_shm_port(const PortConfig& config, Options& options) {
  const Result<std::string> group_name = options.required("group");
  if (!group_name) return tl::unexpected(group_name.error());
  if (group_name->find('/') != std::string::npos) {
    return fail("{}: options:group is '{}': it becomes a socket's name and must have no '/'",
                config.name, *group_name);
  }
  if (Result<> checked = check_socket_path(config.name, config.rundir + "/" + *group_name + ".shm");
      !checked) {
    return tl::unexpected(checked.error());
  }
  shm::RegionConfig region{.name = *group_name};
  const Result<uint32_t> ports = options.number("ports", region.n_ports, 1, shm::kMaxPorts);
  if (!ports) return tl::unexpected(ports.error());
  const Result<uint32_t> buffers = options.number("buffers", region.n_buffers, 256, 1u << 20);
  if (!buffers) return tl::unexpected(buffers.error());
  const Result<uint32_t> room =
      options.number("buffer-size", region.buffer_room, shm::kHeadroom + 64, 16384);
  if (!room) return tl::unexpected(room.error());
  const Result<uint32_t> ring = options.power_of_two("ring-size", region.ring_capacity, 64, 65536);
  if (!ring) return tl::unexpected(ring.error());
  const Result<bool> ivshmem = options.flag("ivshmem", false);
  if (!ivshmem) return tl::unexpected(ivshmem.error());
  if (Result<> rest = options.finish(); !rest) return tl::unexpected(rest.error());
  region.n_ports = *ports;
  region.n_buffers = *buffers;
  region.buffer_room = *room;
  region.ring_capacity = *ring;
  region.power_of_two = *ivshmem;
  auto group = ShmGroup::of({.name = *group_name, .rundir = config.rundir, .region = region});
  if (!group) return tl::unexpected(group.error());
  const Result<uint32_t> place = (*group)->add_port(config.name);
  if (!place) return tl::unexpected(place.error());
  if (config.on_link_event) (*group)->watch(*place, config.on_link_event);
  return std::make_unique<ShmPort>(config, std::move(*group), *place);
}

}  // namespace headrace::port
