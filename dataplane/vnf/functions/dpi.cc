// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/dpi.h"

#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "packet/edit.h"
#include "vnf/functions/pairs.h"
#include "vnf/state/dpi_flows.h"

namespace headrace::vnf {
namespace {

/// What to do with a protocol's packets.
struct Verdict {
  enum class Kind : uint8_t { none, pass, drop, mark } kind{Kind::none};
  uint8_t dscp{0};
};

struct DpiConfig {
  std::vector<uint16_t> out;
  std::vector<Verdict> verdicts;  ///< by protocol
  DpiFlows::Limits limits{};
};

struct ProtocolCounters {
  Counter flows;
  Counter packets;
  Counter bytes;
};

/// The state that a reload keeps: flows, and the counters by protocol.
struct DpiState {
  explicit DpiState(std::unique_ptr<DpiFlows> known)
      : flows(std::move(known)), counters(flows->detector().protocols()) {}
  std::unique_ptr<DpiFlows> flows;
  std::vector<ProtocolCounters> counters;
};

class Dpi final : public Function {
 public:
  Dpi(DpiConfig config, std::unique_ptr<DpiFlows> flows, const FunctionContext& context)
      : config_(std::move(config)),
        known_(std::make_shared<DpiState>(std::move(flows))),
        tsc_hz_(context.tsc_hz) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override {
    const uint16_t out = config_.out[port];
    if (out == kUnpaired) {
      output.drop(packets, DropReason::no_route);
      return;
    }
    for (rte_mbuf* packet : packets) rte_prefetch0(rte_pktmbuf_mtod(packet, void*));
    for (size_t start = 0; start < packets.size(); start += kChunk) {
      process_chunk(out, packets.subspan(start, std::min(kChunk, packets.size() - start)), now,
                    output);
    }
  }

  uint64_t tick(uint64_t now, Output& /*output*/) noexcept override {
    if (now < next_sweep_) return 0;
    next_sweep_ = now + tsc_hz_ / 1000;
    known_->flows->sweep(now, [this](const DpiFlow& flow) { count_decision(flow); });
    shown_flows_.store(known_->flows->in_use(), std::memory_order_relaxed);
    return 0;
  }

  /// Takes over all flows if the limits are unchanged; otherwise detection starts again.
  void migrate_state(Function& previous) noexcept override {
    auto& old = static_cast<Dpi&>(previous);
    if (old.config_.limits == config_.limits) std::swap(known_, old.known_);
  }

  [[nodiscard]] nlohmann::json counters() const override;

 private:
  static constexpr size_t kChunk = DpiFlows::kMaxKeys;

  /// A packet that has a flow key.
  struct Tracked {
    rte_mbuf* packet;
    packet::ParsedPacket parsed;
  };

  void process_chunk(uint16_t out, std::span<rte_mbuf*> packets, uint64_t now,
                     Output& output) noexcept;
  void handle(uint16_t out, const Tracked& tracked, const FlowKey& key, uint32_t index,
              uint64_t now, Output& output) noexcept;
  void detect(const Tracked& tracked, uint32_t index, uint64_t now) noexcept;
  /// Counts a flow and its packets so far under the detected protocol.
  void count_decision(const DpiFlow& flow) noexcept {
    ProtocolCounters& counters = known_->counters[flow.application];
    counters.flows.add(1);
    counters.packets.add(flow.packets_before);
    counters.bytes.add(flow.bytes_before);
  }
  [[nodiscard]] Verdict verdict_on(const DpiFlow& flow) const noexcept {
    const Verdict own = config_.verdicts[flow.application];
    return own.kind != Verdict::Kind::none ? own : config_.verdicts[flow.carrier];
  }

  DpiConfig config_;
  std::shared_ptr<DpiState> known_;
  uint64_t tsc_hz_;
  uint64_t next_sweep_{0};
  std::atomic<uint32_t> shown_flows_{0};
  Counter untracked_;
  Counter marked_;
  Counter detection_packets_;
  Counter detection_cycles_;
};

void Dpi::process_chunk(uint16_t out, std::span<rte_mbuf*> packets, uint64_t now,
                        Output& output) noexcept {
  std::array<Tracked, kChunk> tracked;
  std::array<FlowKey, kChunk> keys;
  std::array<uint32_t, kChunk> found;
  size_t count = 0;
  for (rte_mbuf* packet : packets) {
    const auto frame = packet::frame_of(packet);
    const auto parsed = packet::parse(frame, packet::Depth::l4);
    const auto key = flow_key_of(frame, parsed);
    if (!key) {
      untracked_.add(1);
      output.send(out, packet);
      continue;
    }
    tracked[count] = {packet, parsed};
    keys[count++] = *key;
  }
  known_->flows->find({keys.data(), count}, found);
  for (size_t i = 0; i < count; ++i) handle(out, tracked[i], keys[i], found[i], now, output);
}

void Dpi::handle(uint16_t out, const Tracked& tracked, const FlowKey& key, uint32_t index,
                 uint64_t now, Output& output) noexcept {
  DpiFlows& flows = *known_->flows;
  if (index == DpiFlows::kNone) index = flows.find_or_add(key, now);
  if (index == DpiFlows::kNone) {
    untracked_.add(1);
    output.send(out, tracked.packet);
    return;
  }
  DpiFlow& flow = flows[index];
  flow.last_seen = now;
  if (!flows.is_decided(index)) {
    detect(tracked, index, now);
    if (!flows.is_decided(index)) {
      ++flow.packets_before;
      flow.bytes_before += tracked.packet->pkt_len;
      output.send(out, tracked.packet);
      return;
    }
  }
  ProtocolCounters& counters = known_->counters[flow.application];
  counters.packets.add(1);
  counters.bytes.add(tracked.packet->pkt_len);
  const Verdict verdict = verdict_on(flow);
  if (verdict.kind == Verdict::Kind::drop) {
    output.drop(tracked.packet, DropReason::denied);
    return;
  }
  if (verdict.kind == Verdict::Kind::mark &&
      packet::set_ip_dscp(tracked.packet, tracked.parsed, &verdict.dscp)) {
    marked_.add(1);
  }
  output.send(out, tracked.packet);
}

void Dpi::detect(const Tracked& tracked, uint32_t index, uint64_t now) noexcept {
  const uint64_t start = rte_rdtsc();
  const auto frame = packet::frame_of(tracked.packet);
  if (known_->flows->inspect(index, frame.subspan(tracked.parsed.l3), now)) {
    count_decision((*known_->flows)[index]);
  }
  detection_packets_.add(1);
  detection_cycles_.add(rte_rdtsc() - start);
}

nlohmann::json Dpi::counters() const {
  auto protocols = nlohmann::json::object();
  const ProtocolDetector& detector = known_->flows->detector();
  for (uint16_t id = 0; id < detector.protocols(); ++id) {
    const ProtocolCounters& one = known_->counters[id];
    if (one.packets.read() == 0 && one.flows.read() == 0) continue;
    protocols[std::string(detector.name(id))] = {
        {"flows", one.flows.read()}, {"packets", one.packets.read()}, {"bytes", one.bytes.read()}};
  }
  return {{"flows", shown_flows_.load(std::memory_order_relaxed)},
          {"untracked", untracked_.read()},
          {"marked", marked_.read()},
          {"detection_packets", detection_packets_.read()},
          {"detection_cycles", detection_cycles_.read()},
          {"protocols", std::move(protocols)}};
}

/// Protocols whose names begin with the same letters, to suggest for a misspelt name.
std::string similar_names(const ProtocolDetector& detector, std::string_view name) {
  std::string text;
  for (uint16_t id = 0; id < detector.protocols(); ++id) {
    const auto one = detector.name(id);
    if (name.empty() || one.empty() || (one[0] | 0x20) != (name[0] | 0x20)) continue;
    text += (text.empty() ? "" : ", ") + std::string(one);
  }
  return text.empty() ? "no name begins with these letters" : "similar names:" + text;
}

void read_rule(ConfigReader& entry, const ProtocolDetector& detector, DpiConfig& dpi) {
  const auto name = entry.string("protocol");
  const auto protocol = detector.find(name);
  Verdict verdict{.kind =
                      static_cast<Verdict::Kind>(entry.choice("action", {"pass", "drop", "mark"}) +
                                                 static_cast<size_t>(Verdict::Kind::pass))};
  const bool marks = verdict.kind == Verdict::Kind::mark;
  if (marks || entry.has("dscp")) verdict.dscp = static_cast<uint8_t>(entry.integer("dscp", 0, 63));
  if (!marks && entry.has("dscp")) entry.add_error("dscp", "only for the action \"mark\"");
  if (!protocol) {
    entry.add_error("protocol",
                    fmt::format("nDPI {} has no protocol '{}'; {}", ProtocolDetector::version(),
                                name, similar_names(detector, name)));
  } else if (dpi.verdicts[*protocol].kind != Verdict::Kind::none) {
    entry.add_error("protocol", fmt::format("a rule before this one is for '{}', too", name));
  } else {
    dpi.verdicts[*protocol] = verdict;
  }
  entry.finish();
}

}  // namespace

std::unique_ptr<Function> make_dpi(ConfigReader& config, const FunctionContext& context) {
  DpiConfig dpi;
  dpi.out = read_pairs(config, context);
  const auto flows = static_cast<uint32_t>(config.integer("max_flows", 8, 1 << 24, 65536));
  const auto detecting =
      static_cast<uint32_t>(config.integer("max_detecting", 8, 1 << 20, std::min(flows, 8192U)));
  dpi.limits = {.flows = flows,
                .detecting = detecting,
                .packets = static_cast<uint8_t>(config.integer("max_packets", 1, 255, 10)),
                .timeout = config.integer("timeout_s", 1, 86400, 60) * context.tsc_hz,
                .tsc_per_ms = std::max<uint64_t>(context.tsc_hz / 1000, 1)};
  // The detector alone suffices to check names; the flows' memory needs DPDK.
  const bool check_only = context.pool == nullptr;
  if (check_only) {
    const auto detector = ProtocolDetector::make(0);
    if (!detector) {
      config.add_error("rules", detector.error().message);
      return nullptr;
    }
    dpi.verdicts.resize((*detector)->protocols());
    for (auto& entry : config.children("rules")) read_rule(entry, **detector, dpi);
    return nullptr;
  }
  auto known = DpiFlows::make(dpi.limits);
  if (!known) {
    config.add_error("max_flows", known.error().message);
    return nullptr;
  }
  dpi.verdicts.resize((*known)->detector().protocols());
  for (auto& entry : config.children("rules")) read_rule(entry, (*known)->detector(), dpi);
  if (config.failed()) return nullptr;
  return std::make_unique<Dpi>(std::move(dpi), *std::move(known), context);
}

}  // namespace headrace::vnf
