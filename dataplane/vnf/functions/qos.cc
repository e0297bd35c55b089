// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/qos.h"

#include <rte_meter.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <optional>

#include "vnf/functions/pairs.h"
#include "vnf/functions/qos_config.h"
#include "vnf/net/ipv4_frame.h"

namespace headrace::vnf {
namespace {

/// A class's meter in one direction.
struct Meter {
  rte_meter_trtcm_profile profile{};
  rte_meter_trtcm state{};
};

/// The queues and meters of one output port.
struct Egress {
  std::optional<Scheduler> scheduler;        ///< none for an unpaired port
  std::optional<Scheduler> old;              ///< the one before the last reload, emptied first
  std::vector<std::optional<Meter>> meters;  ///< by class
};

class Qos final : public Function {
 public:
  Qos(QosConfig config, std::vector<Egress> egress)
      : config_(std::move(config)),
        egress_(std::move(egress)),
        per_class_(config_.classes.size()) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override {
    if (config_.out[port] == kUnpaired) {
      output.drop(packets, DropReason::no_route);
      return;
    }
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (size_t start = 0; start < packets.size(); start += kChunk) {
      enqueue(egress_[config_.out[port]],
              packets.subspan(start, std::min(kChunk, packets.size() - start)), now, output);
    }
  }

  uint64_t tick(uint64_t now, Output& output) noexcept override {
    uint64_t sent = 0;
    for (uint16_t port = 0; port < egress_.size(); ++port) {
      Egress& egress = egress_[port];
      if (!egress.scheduler) continue;
      const bool old_first = egress.old && egress.old->size() > 0;
      std::array<rte_mbuf*, kChunk> packets;
      const uint32_t count = (old_first ? *egress.old : *egress.scheduler).dequeue(now, packets);
      output.send(port, {packets.data(), count});
      sent += count;
    }
    return sent;
  }

  /// Takes over the old queues together with their packets.
  void migrate_state(Function& previous) noexcept override {
    auto& old = static_cast<Qos&>(previous).egress_;
    for (size_t i = 0; i < std::min(old.size(), egress_.size()); ++i) {
      if (!egress_[i].scheduler || !old[i].scheduler) continue;
      // On a second reload before the old queue is empty, its remaining packets are lost.
      egress_[i].old = std::move(old[i].scheduler);
      old[i].scheduler.reset();
    }
  }

  [[nodiscard]] nlohmann::json counters() const override {
    nlohmann::json classes;
    for (size_t i = 0; i < per_class_.size(); ++i) {
      classes[config_.classes[i].name] = {{"queued", per_class_[i].queued.read()},
                                          {"policed", per_class_[i].policed.read()},
                                          {"remarked", per_class_[i].remarked.read()}};
    }
    return {{"classes", std::move(classes)}};
  }

 private:
  static constexpr size_t kChunk = 32;
  struct ClassCounters {
    Counter queued;
    Counter policed;
    Counter remarked;
  };

  void enqueue(Egress& egress, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept {
    std::array<rte_mbuf*, kChunk> kept;
    size_t count = 0;
    for (rte_mbuf* packet : packets) {
      const bool ip = rte_pktmbuf_data_len(packet) >= sizeof(packet::EthernetHeader) &&
                      ethernet_of(packet).type == packet::kTypeIpv4 && is_ipv4_valid(packet);
      const uint8_t cls =
          ip ? config_.class_of_dscp[ipv4_of(packet).tos >> 2] : config_.default_class;
      if (!conforms(egress, cls, packet, ip, now)) {
        output.drop(packet, DropReason::policed);
        continue;
      }
      egress.scheduler->mark(packet, config_.classes[cls].queue);
      per_class_[cls].queued.add(1);
      kept[count++] = packet;
    }
    const uint32_t fitted = egress.scheduler->enqueue({kept.data(), count});
    for (size_t i = fitted; i < count; ++i) output.count_drop(DropReason::queue_full);
  }

  /// Meters a packet; false if it must be dropped.
  bool conforms(Egress& egress, uint8_t cls, rte_mbuf* packet, bool ip, uint64_t now) noexcept {
    auto& meter = egress.meters[cls];
    if (!meter) return true;
    const QosMeter& wanted = *config_.classes[cls].meter;
    const rte_color color = rte_meter_trtcm_color_blind_check(&meter->state, &meter->profile, now,
                                                              rte_pktmbuf_pkt_len(packet));
    const bool yellow = color == RTE_COLOR_YELLOW;
    if (color == RTE_COLOR_RED || (yellow && wanted.yellow == QosMeter::Yellow::drop)) {
      per_class_[cls].policed.add(1);
      return false;
    }
    if (yellow && ip && wanted.yellow == QosMeter::Yellow::remark) {
      remark(ipv4_of(packet), wanted.dscp);
      per_class_[cls].remarked.add(1);
    }
    return true;
  }

  static void remark(packet::Ipv4Header& ip, uint8_t dscp) noexcept {
    const auto* word = reinterpret_cast<const uint8_t*>(&ip);
    const uint16_t before = packet::load_raw16(word);
    ip.tos = static_cast<uint8_t>(dscp << 2 | (ip.tos & 3));
    ip.checksum = packet::update16(ip.checksum, before, packet::load_raw16(word));
  }

  QosConfig config_;
  std::vector<Egress> egress_;  ///< by output port
  std::vector<ClassCounters> per_class_;
};

Result<Egress> make_egress(const QosConfig& config, uint64_t tsc_hz) {
  Egress egress;
  auto scheduler = Scheduler::make(config.scheduler, tsc_hz);
  if (!scheduler) return tl::unexpected(scheduler.error());
  egress.scheduler = *std::move(scheduler);
  for (const auto& cls : config.classes) {
    auto& meter = egress.meters.emplace_back();
    if (!cls.meter) continue;
    meter.emplace();
    rte_meter_trtcm_params rates = cls.meter->rates;
    if (rte_meter_trtcm_profile_config(&meter->profile, &rates) != 0 ||
        rte_meter_trtcm_config(&meter->state, &meter->profile) != 0) {
      return fail("class {}: rte_meter refuses these rates", cls.name);
    }
  }
  return egress;
}

}  // namespace

std::unique_ptr<Function> make_qos(ConfigReader& config, const FunctionContext& context) {
  QosConfig qos = read_qos(config, context);
  if (context.pool == nullptr || config.failed()) return nullptr;
  std::vector<Egress> egress(context.ports.size());
  for (const uint16_t out : qos.out) {
    if (out == kUnpaired) continue;
    auto made = make_egress(qos, context.tsc_hz);
    if (!made) {
      config.add_error("classes", made.error().message);
      return nullptr;
    }
    egress[out] = *std::move(made);
  }
  return std::make_unique<Qos>(std::move(qos), std::move(egress));
}

}  // namespace headrace::vnf
