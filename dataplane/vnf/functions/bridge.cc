// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/bridge.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "packet/mac_table.h"
#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

/// VLAN tags are ignored: one table for all VLANs.
constexpr uint16_t kNoVlan = 0;

/// 01:80:c2:00:00:00 to 01:80:c2:00:00:0f, which are never forwarded (IEEE 802.1Q, table 8-1).
bool is_link_local(const uint8_t* mac) {
  constexpr uint8_t kPrefix[5] = {0x01, 0x80, 0xc2, 0, 0};
  return std::memcmp(mac, kPrefix, sizeof kPrefix) == 0 && mac[5] < 0x10;
}

class Bridge final : public Function {
 public:
  Bridge(uint32_t capacity, uint32_t ageing_s, const FunctionContext& context)
      : tick_shift_(std::max(static_cast<int>(std::bit_width(context.tsc_hz)), 4) - 4),
        table_(capacity, static_cast<uint32_t>(ageing_s * context.tsc_hz >> tick_shift_)),
        pool_(context.pool),
        ports_(static_cast<uint16_t>(context.ports.size())) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override {
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    const auto tick = static_cast<uint32_t>(now >> tick_shift_);
    for (rte_mbuf* packet : packets) handle(port, packet, tick, output);
  }

  void migrate_state(Function& previous) noexcept override {
    table_.merge(static_cast<Bridge&>(previous).table_);
  }

  [[nodiscard]] nlohmann::json counters() const override {
    return {{"forwarded", forwarded_.read()}, {"flooded", flooded_.read()}};
  }

 private:
  void handle(uint16_t port, rte_mbuf* packet, uint32_t tick, Output& output) noexcept {
    if (rte_pktmbuf_data_len(packet) < sizeof(packet::EthernetHeader) ||
        (ethernet_of(packet).src[0] & 1) != 0) {
      output.drop(packet, DropReason::malformed);
      return;
    }
    const auto& ethernet = ethernet_of(packet);
    table_.learn(ethernet.src, kNoVlan, port, tick);
    if ((ethernet.dst[0] & 1) != 0) {
      if (is_link_local(ethernet.dst)) {
        output.drop(packet, DropReason::denied);
      } else {
        flood(port, packet, output);
      }
      return;
    }
    const std::optional<uint32_t> out = table_.find(ethernet.dst, kNoVlan, tick);
    if (!out) {
      flood(port, packet, output);
    } else if (*out == port) {
      output.drop(packet, DropReason::discarded);
    } else {
      forwarded_.add(1);
      output.send(static_cast<uint16_t>(*out), packet);
    }
  }

  /// Sends copies, not clones: a device may write into the headroom of the packets that it sends.
  void flood(uint16_t in_port, rte_mbuf* packet, Output& output) noexcept {
    flooded_.add(1);
    std::optional<uint16_t> last;
    for (uint16_t port = 0; port < ports_; ++port) {
      if (port == in_port) continue;
      if (last) send_copy(*last, packet, output);
      last = port;
    }
    if (!last) {
      output.drop(packet, DropReason::no_route);
    } else {
      output.send(*last, packet);
    }
  }

  void send_copy(uint16_t port, rte_mbuf* packet, Output& output) noexcept {
    rte_mbuf* copy = rte_pktmbuf_copy(packet, pool_, 0, UINT32_MAX);
    if (copy == nullptr) {
      output.count_drop(DropReason::no_buffer);
      return;
    }
    output.send(port, copy);
  }

  int tick_shift_;  ///< a tick is 2^tick_shift_ TSC cycles: 1/16 to 1/8 s
  packet::MacTable table_;
  rte_mempool* pool_;
  uint16_t ports_;
  Counter forwarded_;
  Counter flooded_;
};

}  // namespace

std::unique_ptr<Function> make_bridge(ConfigReader& config, const FunctionContext& context) {
  const auto capacity = static_cast<uint32_t>(config.integer("capacity", 4, 1 << 24, 8192));
  const auto ageing = static_cast<uint32_t>(config.integer("ageing_s", 1, 1'000'000, 300));
  return std::make_unique<Bridge>(capacity, ageing, context);
}

}  // namespace headrace::vnf
