// SPDX-License-Identifier: Apache-2.0
#include "pipeline/testing/test_support.h"

#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "packet/bytes.h"
#include "packet/checksum.h"

namespace headrace::pipeline::test {

void start_eal() {
  static const bool started = [] {
    const std::string prefix = fmt::format("--file-prefix=pipeline-test-{}", getpid());
    std::vector<std::string> words = {
        "test", "--no-huge",         "-m",  "64", "--no-pci", "--no-shconf", "--no-telemetry", "-l",
        "0",    "--log-level=error", prefix};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
      std::fprintf(stderr, "EAL: %s\n", rte_strerror(rte_errno));
      std::abort();
    }
    return true;
  }();
  (void)started;
}

rte_mempool* mbuf_pool() {
  start_eal();
  static rte_mempool* const pool =
      rte_pktmbuf_pool_create("test", 4095, 64, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
  return pool;
}

rte_mbuf* make_packet(const Bytes& bytes) {
  rte_mbuf* packet = rte_pktmbuf_alloc(mbuf_pool());
  if (packet == nullptr) std::abort();
  std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(bytes.size())), bytes.data(),
              bytes.size());
  return packet;
}

Bytes bytes_of(const rte_mbuf* packet) {
  Bytes bytes(packet->pkt_len);
  const void* from = rte_pktmbuf_read(packet, 0, packet->pkt_len, bytes.data());
  if (from != bytes.data()) std::memcpy(bytes.data(), from, bytes.size());
  return bytes;
}

Bytes make_frame(const FrameSpec& spec) {
  Bytes frame(spec.size);
  size_t at = 0;
  const auto put = [&](uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      frame.at(at++) = static_cast<uint8_t>(value >> 8 * (size - 1 - i));
    }
  };
  for (uint8_t byte : spec.dst) put(byte, 1);
  for (uint8_t byte : spec.src) put(byte, 1);
  if (spec.vlan >= 0) {
    put(0x8100, 2);
    put(static_cast<uint64_t>(spec.vlan), 2);
  }
  put(spec.eth_type, 2);
  if (spec.eth_type != 0x0800) return frame;
  const size_t l3 = at;
  const size_t ip_length = spec.size - l3;
  put(0x45, 1);
  put(static_cast<uint64_t>(spec.dscp) << 2, 1);
  put(ip_length, 2);
  put(0, 4);  // identification, no fragment
  put(spec.ttl, 1);
  put(spec.proto, 1);
  put(0, 2);
  put(spec.ip_src, 4);
  put(spec.ip_dst, 4);
  packet::store_raw16(&frame[l3 + 10], packet::checksum({&frame[l3], 20}));
  if (spec.proto != 17) return frame;
  const size_t l4 = at;
  put(spec.l4_src, 2);
  put(spec.l4_dst, 2);
  put(ip_length - 20, 2);
  put(0, 2);
  const packet::Sum pseudo =
      packet::pseudo_ipv4(packet::load_raw32(&frame[l3 + 12]), packet::load_raw32(&frame[l3 + 16]),
                          spec.proto, static_cast<uint16_t>(ip_length - 20));
  const auto sum = static_cast<uint16_t>(
      ~packet::fold(pseudo + packet::sum_of({&frame[l4], frame.size() - l4})));
  packet::store_raw16(&frame[l4 + 6], packet::udp_nonzero(sum));
  return frame;
}

CapturePort::~CapturePort() = default;

uint16_t CapturePort::rx(uint16_t, std::span<rte_mbuf*>) noexcept {
  return 0;
}

uint16_t CapturePort::tx(uint16_t, std::span<rte_mbuf*> packets) noexcept {
  const auto taken = static_cast<uint16_t>(std::min<size_t>(room, packets.size()));
  for (uint16_t i = 0; i < taken; ++i) {
    sent.push_back(bytes_of(packets[i]));
    rte_pktmbuf_free(packets[i]);
  }
  return taken;
}

bool CapturePunts::punt(rte_mbuf* packet, const PuntInfo& info) noexcept {
  if (punted.size() >= room) return false;
  punted.emplace_back(info, bytes_of(packet));
  rte_pktmbuf_free(packet);
  return true;
}

void ManualReclaimer::end_grace_period() {
  std::vector<std::function<void()>> now;
  now.swap(deferred);
  for (const std::function<void()>& function : now) function();
}

TestSwitch::TestSwitch(unsigned n_ports, uint32_t id)
    : lsi({.id = id,
           .name = "test",
           .clock = {.now = [this] { return now; }, .hz = kHz},
           .max_flows_per_table = 1000,
           .max_groups = 1000,
           .max_meters = 1000},
          reclaimer) {
  start_eal();
  for (PortNo number = 1; number <= n_ports; ++number) {
    PortSpec spec;
    spec.number = number;
    spec.name = fmt::format("p{}", number);
    spec.io = &ports[number];
    if (!lsi.add_port(spec)) std::abort();
  }
  executor.set_time(now);
}

TestSwitch::~TestSwitch() = default;

void TestSwitch::send(PortNo in_port, const std::vector<Bytes>& frames) {
  executor.set_time(now);
  std::vector<rte_mbuf*> packets;
  for (size_t i = 0; i < frames.size(); ++i) {
    packets.push_back(make_packet(frames[i]));
    if (packets.size() == kBurst || i + 1 == frames.size()) {
      executor.run(lsi.program(), in_port, packets);
      packets.clear();
    }
  }
  executor.flush();
}

std::vector<Bytes> TestSwitch::take(PortNo number) {
  return std::exchange(ports[number].sent, {});
}

FlowStats TestSwitch::flow(const FlowFilter& filter) {
  std::vector<FlowStats> found;
  (void)lsi.for_each_flow(filter, [&](const FlowStats& flow) { found.push_back(flow); });
  if (found.size() != 1) std::abort();
  return found[0];
}

namespace {

/// The first half of every IPv6 address here, and of every mask.
constexpr uint64_t kPrefix = 0x20010db800000000;
constexpr uint64_t kAllOnes = ~uint64_t{0};

/// Octet i of a field of `bytes` octets; of 16, `high` is the first half.
uint8_t octet_of(uint64_t value, size_t bytes, size_t i, uint64_t high) {
  const size_t place = bytes - 1 - i;
  return static_cast<uint8_t>(place < 8 ? value >> 8 * place : high >> 8 * (place - 8));
}

}  // namespace

match::Match make_match(const std::vector<FieldValue>& fields) {
  match::Match made;
  for (const FieldValue& field : fields) {
    const size_t bytes = match::info(field.field).bytes;
    uint8_t value[16];
    uint8_t mask[16];
    for (size_t i = 0; i < bytes; ++i) {
      value[i] = octet_of(field.value, bytes, i, kPrefix);
      mask[i] = octet_of(field.mask, bytes, i, kAllOnes);
    }
    made.add(field.field, value, field.mask == ~uint64_t{0} ? nullptr : mask);
  }
  return made;
}

SetFieldAction set_field(match::Field field, uint64_t value) {
  SetFieldAction action;
  action.field = field;
  const size_t bytes = match::info(field).bytes;
  for (size_t i = 0; i < bytes; ++i) action.value[i] = octet_of(value, bytes, i, kPrefix);
  return action;
}

FlowMod add_flow(uint8_t table, uint16_t priority, match::Match match,
                 InstructionList instructions) {
  FlowMod mod;
  mod.table_id = table;
  mod.priority = priority;
  mod.match = std::move(match);
  mod.instructions = std::move(instructions);
  return mod;
}

}  // namespace headrace::pipeline::test
