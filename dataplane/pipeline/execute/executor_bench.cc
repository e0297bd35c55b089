// SPDX-License-Identifier: Apache-2.0
// What a packet costs in the pipeline, in TSC cycles, with a source and a sink in the same process.
//
// Source: takes mbufs from a pool and copies prepared frames into them (60 bytes; with a tunnel
// around them 110), as net_pcap's infinite_rx does. Sink: puts them back. Their own cost is
// measured alone and shown as "source and sink"; every other row includes it. Each row is the least
// of its repeats, as the machine's other work only ever adds; the median is shown beside it.
#include <fmt/format.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "match/fields/simd.h"
#include "packet/test_packet.h"
#include "pipeline/control/lsi.h"
#include "pipeline/execute/executor.h"
#include "pipeline/testing/test_support.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;

class NullSink final : public PortIo {
 public:
  uint16_t rx(uint16_t, std::span<rte_mbuf*>) noexcept override { return 0; }
  uint16_t tx(uint16_t, std::span<rte_mbuf*> packets) noexcept override {
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
    return static_cast<uint16_t>(packets.size());
  }
};

constexpr size_t kFrameRoom = 64;
using Frame = std::array<uint8_t, kFrameRoom>;

class Source {
 public:
  /// `lines`: how many of `frames` make one packet of `size` octets.
  Source(rte_mempool* pool, std::vector<Frame> frames, size_t lines, uint16_t size)
      : pool_(pool), frames_(std::move(frames)), lines_(lines), size_(size) {}

  void fill(std::span<rte_mbuf*> packets) {
    if (rte_pktmbuf_alloc_bulk(pool_, packets.data(), static_cast<unsigned>(packets.size())) != 0) {
      std::abort();
    }
    for (rte_mbuf* packet : packets) {
      auto* to = rte_pktmbuf_mtod(packet, uint8_t*);
      std::memcpy(to, frames_[next_].data(), kFrameRoom);
      for (size_t line = 1; line < lines_; ++line) {
        std::memcpy(to + line * kFrameRoom, frames_[next_ + line].data(), kFrameRoom);
      }
      packet->data_len = size_;
      packet->pkt_len = size_;
      next_ += lines_;
      if (next_ == frames_.size()) next_ = 0;
    }
  }

 private:
  rte_mempool* pool_;
  std::vector<Frame> frames_;
  size_t lines_;
  uint16_t size_;
  size_t next_{0};
};

Frame frame(const FrameSpec& spec) {
  const Bytes bytes = make_frame(spec);
  Frame made{};
  std::copy(bytes.begin(), bytes.end(), made.begin());
  return made;
}

struct Case {
  std::string name;
  std::vector<FlowMod> flows;
  std::vector<Frame> frames;
  std::vector<MeterMod> meters{};
  std::vector<GroupMod> groups{};
  size_t lines{1};  ///< of `frames` that make one packet
  uint16_t size{60};
  bool drops{false};  ///< some of the packets
};

MacAddress mac(uint64_t number) {
  MacAddress bytes;
  for (size_t i = 0; i < 6; ++i) bytes[i] = static_cast<uint8_t>(number >> 8 * (5 - i));
  return bytes;
}

constexpr uint64_t kRouterMac = 0x020000000001;

/// `macs` exact rules on eth_dst; `flows` source addresses.
Case l2(size_t macs, size_t flows) {
  Case made{fmt::format("L2, {} MACs, {} flows", macs, flows), {}, {}};
  for (size_t i = 0; i < macs; ++i) {
    made.flows.push_back(add_flow(0, 10, make_match({{Field::eth_dst, 0x020000010000 + i}}),
                                  {ApplyActions{{OutputAction{2}}}}));
  }
  for (size_t i = 0; i < flows; ++i) {
    FrameSpec spec;
    spec.dst = mac(0x020000010000 + i % macs);
    spec.ip_src = static_cast<uint32_t>(0x0b000000 + i);
    made.frames.push_back(frame(spec));
  }
  return made;
}

/// 100 exact flows, and one packet in a hundred that misses, from any source.
Case misses(size_t one_in) {
  Case made{one_in == 0 ? "100 exact flows, no miss"
                        : fmt::format("100 exact flows, 1 packet in {} dropped", one_in),
            {},
            {}};
  made.drops = one_in != 0;
  constexpr uint32_t kFlows = 100;
  for (uint32_t i = 0; i < kFlows; ++i) {
    made.flows.push_back(
        add_flow(0, 10, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_src, 0x0b000000 + i}}),
                 {ApplyActions{{OutputAction{2}}}}));
  }
  std::mt19937 random(7);
  for (uint32_t i = 0; i < 16'384; ++i) {
    const bool miss = one_in != 0 && i % one_in == 0;
    FrameSpec spec;
    spec.ip_src = miss ? 0x0c000000 + random() % 0xffffff : 0x0b000000 + i % kFlows;
    made.frames.push_back(frame(spec));
  }
  return made;
}

struct Prefix {
  uint32_t address;
  unsigned length;
};

/// The router: MAC, then prefixes, each with a neighbor of its own.
Case l3(std::string name, const std::vector<Prefix>& prefixes, size_t flows) {
  Case made{std::move(name), {}, {}};
  made.flows.push_back(add_flow(
      0, 10, make_match({{Field::in_port, 1}, {Field::eth_dst, kRouterMac}}), {GotoTable{1}}));
  uint64_t neighbor = 0;
  for (const Prefix& prefix : prefixes) {
    const uint64_t mask = 0xffffffffull << (32 - prefix.length) & 0xffffffff;
    made.flows.push_back(
        add_flow(1, static_cast<uint16_t>(prefix.length),
                 make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, prefix.address, mask}}),
                 {ApplyActions{{set_field(Field::eth_src, 0x02000000aa00),
                                set_field(Field::eth_dst, 0x020000bb0000 + neighbor++),
                                DecNwTtlAction{}, OutputAction{2}}}}));
  }
  std::mt19937 random(7);
  for (size_t i = 0; i < flows; ++i) {
    const Prefix& prefix = prefixes[i < prefixes.size() ? i : random() % prefixes.size()];
    const uint32_t host = prefix.length == 32 ? 0 : random() & (0xffffffffu >> prefix.length);
    FrameSpec spec;
    spec.dst = mac(kRouterMac);
    spec.ip_dst = prefix.address | host;
    made.frames.push_back(frame(spec));
  }
  std::shuffle(made.frames.begin(), made.frames.end(), random);
  return made;
}

std::vector<Prefix> slash24s(size_t count) {
  std::vector<Prefix> made;
  for (uint32_t i = 0; i < count; ++i) made.push_back({0x0a000000 + (i << 8), 24});
  return made;
}

/// Random prefixes, /8 to /32, most of them spread evenly over /10 and longer.
std::vector<Prefix> mixed(size_t count) {
  std::mt19937 random(11);
  std::set<std::pair<uint32_t, unsigned>> seen;
  std::vector<Prefix> made;
  while (made.size() < count) {
    const unsigned length = random() % 100 < 5 ? 8 + random() % 2 : 10 + random() % 23;
    const uint32_t mask = 0xffffffffu << (32 - length);
    const uint32_t address = (random() % 0xdf000000u + 0x01000000u) & mask;
    if (seen.emplace(address, length).second) made.push_back({address, length});
  }
  return made;
}

/// Router MAC; per user a meter that never fills; policy; prefixes. Four tables.
Case access(size_t users) {
  Case made{fmt::format("access gateway, {} users with meters", users), {}, {}};
  made.flows.push_back(add_flow(
      0, 10, make_match({{Field::in_port, 1}, {Field::eth_dst, kRouterMac}}), {GotoTable{1}}));
  const std::vector<Prefix> prefixes = slash24s(1000);
  for (uint32_t user = 0; user < users; ++user) {
    MeterMod meter;
    meter.meter_id = user + 1;
    meter.flags = 2;
    meter.bands = {{MeterBand::Type::drop, 0xffffffff, 0, 0}};
    made.meters.push_back(meter);
    made.flows.push_back(add_flow(
        1, 10, make_match({{Field::eth_type, 0x0800}, {Field::ipv4_src, 0x0b000000 + user}}),
        {MeterInstruction{user + 1}, GotoTable{2}}));
    FrameSpec spec;
    spec.dst = mac(kRouterMac);
    spec.ip_src = 0x0b000000 + user;
    spec.ip_dst = prefixes[user % prefixes.size()].address + user % 200;
    made.frames.push_back(frame(spec));
  }
  for (const auto& [proto, port, value] :
       {std::tuple{6u, Field::tcp_dst, 25u}, std::tuple{17u, Field::udp_dst, 19u}}) {
    made.flows.push_back(add_flow(
        2, 20, make_match({{Field::eth_type, 0x0800}, {Field::ip_proto, proto}, {port, value}}),
        {}));
  }
  made.flows.push_back(add_flow(2, 1, {}, {GotoTable{3}}));
  for (const Prefix& prefix : prefixes) {
    made.flows.push_back(add_flow(
        3, 24,
        make_match({{Field::eth_type, 0x0800}, {Field::ipv4_dst, prefix.address, 0xffffff00}}),
        {ApplyActions{
            {set_field(Field::eth_dst, 0x020000bb0000), DecNwTtlAction{}, OutputAction{2}}}}));
  }
  std::shuffle(made.frames.begin(), made.frames.end(), std::mt19937(7));
  return made;
}

constexpr uint32_t kHosts = 100;     ///< behind tunnels
constexpr uint32_t kVirtuals = 100;  ///< IP addresses
constexpr uint32_t kBackends = 8;    ///< of each
constexpr uint32_t kGatewayIp = 0xac1fff01;

packet::TunnelAddress ipv4(uint32_t address) {
  packet::TunnelAddress made{};
  for (size_t i = 0; i < 4; ++i) made[i] = static_cast<uint8_t>(address >> 8 * (3 - i));
  return made;
}

PushTunnelAction vxlan(uint32_t host, uint32_t vni) {
  PushTunnelAction push;
  push.spec.kind = packet::TunnelKind::vxlan;
  push.spec.id = vni;
  push.spec.src_mac = mac(0x02000000fe01);
  push.spec.dst_mac = mac(0x020000030000 + host);
  push.spec.local = ipv4(kGatewayIp);
  push.spec.remote = ipv4(kGatewayIp + 1 + host);
  return push;
}

/// Virtual IP, select group, MAC rewrite and VXLAN push.
Case gateway_up(size_t flows) {
  Case made{"gateway up", {}, {}};
  for (uint32_t number = 0; number < kVirtuals; ++number) {
    GroupMod group;
    group.type = GroupMod::Type::select;
    group.group_id = number;
    for (uint32_t backend = 0; backend < kBackends; ++backend) {
      const uint32_t machine = number * kBackends + backend;
      Bucket bucket;
      bucket.weight = 1;
      bucket.actions = {set_field(Field::eth_dst, 0x020000020000 + machine),
                        vxlan(machine % kHosts, 5000 + number), OutputAction{2}};
      group.buckets.push_back(bucket);
    }
    made.groups.push_back(group);
    made.flows.push_back(add_flow(0, 10,
                                  make_match({{Field::in_port, 1},
                                              {Field::eth_type, 0x0800},
                                              {Field::ipv4_dst, 0x0a000000 + number}}),
                                  {ApplyActions{{GroupAction{number}}}}));
  }
  std::mt19937 random(7);
  for (uint32_t i = 0; i < flows; ++i) {
    FrameSpec spec;
    spec.ip_src = 0xc0000000 + random() % 0xffffff;
    spec.ip_dst = 0x0a000000 + i % kVirtuals;
    made.frames.push_back(frame(spec));
  }
  return made;
}

/// VXLAN pop, then VNI, MAC rewrite and TTL.
Case gateway_down(size_t flows) {
  constexpr uint32_t kTenants = 100;
  Case made{"gateway down", {}, {}};
  made.flows.push_back(
      add_flow(0, 10,
               make_match({{Field::in_port, 1},
                           {Field::eth_type, 0x0800},
                           {Field::ip_proto, 17},
                           {Field::ipv4_dst, kGatewayIp},
                           {Field::udp_dst, 4789}}),
               {ApplyActions{{PopTunnelAction{packet::TunnelKind::vxlan}}}, GotoTable{1}}));
  for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
    made.flows.push_back(
        add_flow(1, 10, make_match({{Field::tunnel_id, 5000 + tenant}, {Field::eth_type, 0x0800}}),
                 {ApplyActions{{set_field(Field::eth_src, kRouterMac),
                                set_field(Field::eth_dst, 0x020000040000 + tenant),
                                DecNwTtlAction{}, OutputAction{2}}}}));
  }
  std::mt19937 random(7);
  for (uint32_t i = 0; i < flows; ++i) {
    FrameSpec spec;
    spec.ip_src = 0x0a000000 + random() % 0xfffff;
    spec.ip_dst = 0xc0000000 + random() % 0xffffff;
    packet::TestPacket packet(make_frame(spec));
    PushTunnelAction push = vxlan(0, 5000 + i % kTenants);
    push.spec.local = ipv4(kGatewayIp + 1 + i / kTenants % kHosts);
    push.spec.remote = ipv4(kGatewayIp);
    if (packet::TunnelHeader(push.spec).push(packet.mbuf(), {}, push.spec.id, random()) !=
        packet::TunnelResult::done) {
      std::abort();
    }
    const Bytes bytes = packet.frame();
    made.size = static_cast<uint16_t>(bytes.size());
    made.lines = (bytes.size() + kFrameRoom - 1) / kFrameRoom;
    for (size_t at = 0; at < made.lines * kFrameRoom; at += kFrameRoom) {
      Frame line{};
      std::copy_n(bytes.begin() + static_cast<long>(at), std::min(kFrameRoom, bytes.size() - at),
                  line.begin());
      made.frames.push_back(line);
    }
  }
  return made;
}

class Bench {
 public:
  explicit Bench(unsigned milliseconds) : milliseconds_(milliseconds) {
    pool_ = rte_pktmbuf_pool_create("bench", 8191, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (pool_ == nullptr) throw std::runtime_error(rte_strerror(rte_errno));
  }

  /// Cycles per packet of each window: with the LSI, or without (null).
  std::vector<double> measure(Lsi* lsi, Executor& executor, Source& source) {
    NullSink sink;
    std::array<rte_mbuf*, kBurst> packets;
    std::vector<double> windows;
    const uint64_t end = rte_rdtsc() + rte_get_tsc_hz() / 1000 * milliseconds_;
    constexpr size_t kRounds = 100;
    while (rte_rdtsc() < end || windows.size() < 10) {
      const uint64_t start = rte_rdtsc();
      for (size_t round = 0; round < kRounds; ++round) {
        source.fill(packets);
        if (lsi != nullptr) {
          executor.set_time(rte_rdtsc());
          executor.run(lsi->program(), 1, packets);
          executor.flush();
        } else {
          sink.tx(0, packets);
        }
      }
      windows.push_back(static_cast<double>(rte_rdtsc() - start) / (kRounds * kBurst));
    }
    std::sort(windows.begin(), windows.end());
    return windows;
  }

  nlohmann::json run(const Case& test, bool pipeline) {
    ImmediateReclaimer reclaimer;
    CapturePunts punts;
    NullSink sink;
    LsiConfig config;
    config.name = "bench";
    Lsi lsi(config, reclaimer);
    for (PortNo number = 1; number <= 2; ++number) {
      PortSpec spec;
      spec.number = number;
      spec.name = fmt::format("p{}", number);
      spec.io = &sink;
      if (!lsi.add_port(spec)) std::abort();
    }
    for (const MeterMod& mod : test.meters) {
      if (!lsi.meter_mod(mod)) throw std::runtime_error("meter refused");
    }
    for (const GroupMod& mod : test.groups) {
      if (!lsi.group_mod(mod)) throw std::runtime_error("group refused");
    }
    const uint64_t start = rte_rdtsc();
    for (const FlowMod& mod : test.flows) {
      if (!lsi.flow_mod(mod)) throw std::runtime_error("flow refused");
    }
    const double seconds =
        static_cast<double>(rte_rdtsc() - start) / static_cast<double>(rte_get_tsc_hz());
    Source source(pool_, test.frames, test.lines, test.size);
    Executor executor(0, punts);
    const std::vector<double> windows = measure(pipeline ? &lsi : nullptr, executor, source);
    if (pipeline && !test.drops &&
        lsi.port_stats(2)->at(0).tx_packets != lsi.port_stats(1)->at(0).rx_packets) {
      throw std::runtime_error("packets were lost: " + test.name);
    }
    nlohmann::json row{{"name", test.name},
                       {"value", windows.front()},
                       {"median", windows[windows.size() / 2]},
                       {"unit", "TSC cycles/packet"},
                       {"samples", windows.size()}};
    if (!test.flows.empty()) {
      row["flow_mods_per_s"] = static_cast<double>(test.flows.size()) / seconds;
    }
    return row;
  }

 private:
  unsigned milliseconds_;
  rte_mempool* pool_{nullptr};
};

int run(bool json, unsigned milliseconds, const std::string& only) {
  using Make = std::function<Case()>;
  const auto routes = [](const std::string& what, std::vector<Prefix> (*prefixes)(size_t),
                         size_t n_prefixes, size_t flows) {
    const std::string name = fmt::format("L3, {} {}, {} flows", n_prefixes, what, flows);
    return std::pair<std::string, Make>(name,
                                        [=] { return l3(name, prefixes(n_prefixes), flows); });
  };
  const auto bridge = [](size_t flows) {
    return std::pair<std::string, Make>(fmt::format("L2, 100 MACs, {} flows", flows),
                                        [=] { return l2(100, flows); });
  };
  const std::vector<std::pair<std::string, Make>> cases = {
      {"source and sink",
       [] {
         return Case{"source and sink", {}, {frame({})}};
       }},
      {"port to port",
       [] {
         return Case{
             "port to port", {add_flow(0, 1, {}, {ApplyActions{{OutputAction{2}}}})}, {frame({})}};
       }},
      bridge(100),
      bridge(10'000),
      {"100 exact flows, no miss", [] { return misses(0); }},
      {"100 exact flows, 1 packet in 100 dropped", [] { return misses(100); }},
      routes("x /24", slash24s, 1, 1),
      routes("x /24", slash24s, 100, 100),
      routes("x /24", slash24s, 2000, 10'000),
      routes("x /24", slash24s, 2000, 500'000),
      routes("mixed prefixes", mixed, 10'000, 1),
      routes("mixed prefixes", mixed, 10'000, 100),
      routes("mixed prefixes", mixed, 10'000, 10'000),
      routes("mixed prefixes", mixed, 10'000, 500'000),
      {"access gateway", [] { return access(10'000); }},
      {"gateway up", [] { return gateway_up(10'000); }},
      {"gateway down", [] { return gateway_down(10'000); }},
  };

  Bench bench(milliseconds);
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, make] : cases) {
    if (!only.empty() && name.find(only) == std::string::npos) continue;
    const Case test = make();
    nlohmann::json row = bench.run(test, !test.flows.empty());
    if (!json) {
      fmt::print("{:40} {:6.1f} min {:6.1f} median cycles/packet", test.name,
                 row["value"].get<double>(), row["median"].get<double>());
      if (test.flows.size() > 1000) {
        fmt::print("  {:.0f}k flow-mods/s", row["flow_mods_per_s"].get<double>() / 1000);
      }
      fmt::print("\n");
    }
    rows.push_back(std::move(row));
  }
  if (json) fmt::print("{}\n", nlohmann::json{{"rows", rows}}.dump(2));
  return 0;
}

}  // namespace
}  // namespace headrace::pipeline::test

int main(int argc, char** argv) {
  CLI::App app{"Cycles per packet in the pipeline, from memory to memory"};
  bool json = false;
  bool no_huge = false;
  unsigned core = 1;
  unsigned milliseconds = 500;
  std::string only;
  std::string simd;
  app.add_flag("--json", json, "print one JSON object");
  app.add_flag("--no-huge", no_huge, "use ordinary pages");
  app.add_option("--core", core, "the core to run on");
  app.add_option("--ms", milliseconds, "milliseconds per row");
  app.add_option("--only", only, "rows whose name contains this");
  app.add_option("--simd", simd, "vector instructions of the packet path: portable, avx2, avx512");
  CLI11_PARSE(app, argc, argv);
  if (!simd.empty()) {
    const auto wanted = headrace::match::simd_named(simd);
    if (wanted) headrace::match::set_simd(*wanted);
    if (!wanted || headrace::match::simd() != *wanted) {
      fmt::print(stderr, "--simd {}: this processor has it not\n", simd);
      return 1;
    }
  }
  std::vector<std::string> words = {argv[0],
                                    "--no-pci",
                                    "--no-telemetry",
                                    "--no-shconf",
                                    "--log-level=error",
                                    "-m",
                                    "128",
                                    "-l",
                                    fmt::format("{}", core),
                                    fmt::format("--file-prefix=bench-{}", getpid())};
  words.emplace_back(no_huge ? "--no-huge" : "--huge-unlink=always");
  std::vector<char*> args;
  for (std::string& word : words) args.push_back(word.data());
  if (rte_eal_init(static_cast<int>(args.size()), args.data()) < 0) {
    fmt::print(stderr, "EAL: {}; without hugepages, try --no-huge\n", rte_strerror(rte_errno));
    return 1;
  }
  return headrace::pipeline::test::run(json, milliseconds, only);
}
