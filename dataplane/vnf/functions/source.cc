// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/source.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

constexpr size_t kFcs = 4;
constexpr size_t kHeaders =
    sizeof(packet::EthernetHeader) + sizeof(packet::Ipv4Header) + sizeof(packet::UdpHeader);

constexpr size_t kBurst = 32;

struct SourceConfig {
  size_t frame_size{60};  ///< without FCS
  uint32_t flows{1};
  uint64_t rate_pps{0};
  size_t burst{1};
  std::optional<MacAddress> src_mac;
  MacAddress dst_mac{};
  Ipv4Address src_ip{0};
  Ipv4Address dst_ip{0};
  uint16_t src_port{0};
  uint16_t dst_port{0};
};

/// The frame of flow 0; other flows differ in the destination address and the header checksum.
std::vector<uint8_t> make_template(const SourceConfig& config, const MacAddress& port_mac) {
  std::vector<uint8_t> frame(config.frame_size);
  auto& ethernet = *reinterpret_cast<packet::EthernetHeader*>(frame.data());
  std::memcpy(ethernet.src, config.src_mac.value_or(port_mac).data(), sizeof ethernet.src);
  std::memcpy(ethernet.dst, config.dst_mac.data(), sizeof ethernet.dst);
  ethernet.type = packet::kTypeIpv4;
  auto& ip = *reinterpret_cast<packet::Ipv4Header*>(&frame[sizeof ethernet]);
  ip.version_ihl = 0x45;
  ip.total_length = packet::swap16(static_cast<uint16_t>(frame.size() - sizeof ethernet));
  ip.ttl = 64;
  ip.proto = packet::kProtoUdp;
  ip.src = packet::swap32(config.src_ip);
  ip.dst = packet::swap32(config.dst_ip);
  ip.checksum = packet::checksum({&frame[sizeof ethernet], sizeof ip});
  auto& udp = *reinterpret_cast<packet::UdpHeader*>(&frame[sizeof ethernet + sizeof ip]);
  udp.src_port = packet::swap16(config.src_port);
  udp.dst_port = packet::swap16(config.dst_port);
  udp.length = packet::swap16(static_cast<uint16_t>(frame.size() - sizeof ethernet - sizeof ip));
  return frame;  // the UDP checksum stays 0: not computed
}

class Source final : public Function {
 public:
  Source(const SourceConfig& config, const FunctionContext& context)
      : config_(config), pool_(context.pool), tsc_hz_(context.tsc_hz) {
    for (const auto& port : context.ports) {
      templates_.push_back(make_template(config, port.mac));
    }
  }

  void process(uint16_t /*port*/, std::span<rte_mbuf*> packets, uint64_t /*now*/,
               Output& output) noexcept override {
    output.drop(packets, DropReason::discarded);
  }

  uint64_t tick(uint64_t now, Output& output) noexcept override {
    const size_t count = due(now);
    uint64_t made = 0;
    for (uint16_t port = 0; port < templates_.size() && count > 0; ++port) {
      made += send(port, count, output);
    }
    return made;
  }

  [[nodiscard]] nlohmann::json counters() const override { return {{"made", made_.read()}}; }

 private:
  /// How many packets each port's rate allows now, in whole bursts, at most kBurst. After a pause
  /// of more than a burst's time, the missed packets are not made up for.
  size_t due(uint64_t now) noexcept {
    if (config_.rate_pps == 0) return kBurst;
    if (last_ == 0) last_ = now;
    const double interval = static_cast<double>(tsc_hz_) / static_cast<double>(config_.rate_pps);
    credit_ += static_cast<double>(now - last_) / interval;
    last_ = now;
    credit_ = std::min(credit_, static_cast<double>(2 * kBurst));
    const size_t whole = std::min(kBurst, static_cast<size_t>(credit_));
    const size_t count = whole - whole % config_.burst;
    credit_ -= static_cast<double>(count);
    return count;
  }

  uint64_t send(uint16_t port, size_t count, Output& output) noexcept {
    std::array<rte_mbuf*, kBurst> packets;
    if (rte_pktmbuf_alloc_bulk(pool_, packets.data(), static_cast<unsigned>(count)) != 0) {
      return 0;  // all buffers are in flight: the port is slower than the source
    }
    const auto& frame = templates_[port];
    for (size_t i = 0; i < count; ++i) {
      rte_mbuf* packet = packets[i];
      std::memcpy(rte_pktmbuf_mtod(packet, void*), frame.data(), frame.size());
      packet->data_len = static_cast<uint16_t>(frame.size());
      packet->pkt_len = static_cast<uint32_t>(frame.size());
      if (config_.flows > 1) set_flow(packet);
    }
    made_.add(count);
    output.send(port, {packets.data(), count});
    return count;
  }

  void set_flow(rte_mbuf* packet) noexcept {
    auto& ip = ipv4_of(packet);
    const uint32_t destination = packet::swap32(config_.dst_ip + flow_);
    ip.checksum = packet::update32(ip.checksum, ip.dst, destination);
    ip.dst = destination;
    if (++flow_ == config_.flows) flow_ = 0;
  }

  SourceConfig config_;
  rte_mempool* pool_;
  uint64_t tsc_hz_;
  std::vector<std::vector<uint8_t>> templates_;
  uint64_t last_{0};
  double credit_{0};
  uint32_t flow_{0};
  Counter made_;
};

}  // namespace

std::unique_ptr<Function> make_source(ConfigReader& config, const FunctionContext& context) {
  SourceConfig source;
  source.frame_size = config.integer("size", 64, 2048, 64) - kFcs;
  static_assert(64 - kFcs >= kHeaders);
  source.flows = static_cast<uint32_t>(config.integer("flows", 1, 1 << 24, 1));
  source.rate_pps = config.integer("rate_pps", 0, 1'000'000'000, 0);
  source.burst = config.integer("burst", 1, kBurst, 1);
  source.src_mac = config.optional_mac("src_mac");
  source.dst_mac = config.optional_mac("dst_mac").value_or(MacAddress{2, 0, 0, 0, 0, 1});
  source.src_ip = config.optional_ipv4("src_ip").value_or(0x0a000001);
  source.dst_ip = config.optional_ipv4("dst_ip").value_or(0x0a010001);
  source.src_port = static_cast<uint16_t>(config.integer("src_port", 0, 65535, 1024));
  source.dst_port = static_cast<uint16_t>(config.integer("dst_port", 0, 65535, 9));
  return std::make_unique<Source>(source, context);
}

}  // namespace headrace::vnf
