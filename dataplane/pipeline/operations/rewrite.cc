// SPDX-License-Identifier: Apache-2.0
#include "pipeline/operations/rewrite.h"

#include <algorithm>

#include "packet/bytes.h"
#include "packet/checksum.h"
#include "pipeline/execute/edit_inline.h"
#include "pipeline/execute/rule_runner.h"
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {

extern const Operation operation_rewrite;

namespace {

using match::Field;

/// The difference that a raw 32-bit word makes to a checksum's sum.
uint64_t difference(uint32_t before, uint32_t after) {
  return uint64_t{~before & 0xffffu} + (~before >> 16) + (after & 0xffffu) + (after >> 16);
}

uint16_t repaired(uint16_t checksum, uint64_t differences) {
  uint64_t sum = uint64_t{static_cast<uint16_t>(~checksum)} + differences;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

/// Whether the packet has all headers that are written, and a TTL to spare.
bool is_usual(const Rewrite& rewrite, PacketView view, const uint8_t* frame) {
  const packet::ParsedPacket& parsed = *view.parsed;
  if (rewrite.needs_ipv4 && !parsed.has(packet::kIpv4)) return false;
  if (rewrite.proto != 0 && (parsed.l4 == 0 || parsed.ip_proto != rewrite.proto)) return false;
  if (rewrite.dec_ttl && (!parsed.has(packet::kIpv4) || ttl_expires(frame, parsed))) return false;
  return parsed.l2_end != 0;
}

void write_ipv4(const Rewrite& rewrite, PacketView view, uint8_t* frame) {
  using namespace packet;
  const ParsedPacket& parsed = *view.parsed;
  uint8_t* l3 = frame + parsed.l3;
  auto* ip = reinterpret_cast<Ipv4Header*>(l3);
  uint8_t* const src_at = l3 + offsetof(Ipv4Header, src);
  uint8_t* const dst_at = l3 + offsetof(Ipv4Header, dst);
  const uint32_t src = load_raw32(src_at);
  const uint32_t dst = load_raw32(dst_at);
  const uint32_t new_src = (src & ~rewrite.src_mask) | rewrite.src;
  const uint32_t new_dst = (dst & ~rewrite.dst_mask) | rewrite.dst;
  const uint64_t addresses = difference(src, new_src) + difference(dst, new_dst);
  store_raw32(src_at, new_src);
  store_raw32(dst_at, new_dst);
  uint64_t header = addresses;
  if (rewrite.dec_ttl) {
    const uint16_t before = load_raw16(l3 + offsetof(Ipv4Header, ttl));
    --ip->ttl;
    header += static_cast<uint16_t>(~before) + uint64_t{load_raw16(l3 + offsetof(Ipv4Header, ttl))};
  }
  ip->checksum = repaired(ip->checksum, header);
  std::memcpy(&view.key->ipv4_src, &new_src, 4);
  std::memcpy(&view.key->ipv4_dst, &new_dst, 4);
  const bool tcp = parsed.ip_proto == kProtoTcp;
  if (parsed.l4 == 0 || (!tcp && parsed.ip_proto != kProtoUdp)) return;
  uint8_t* l4 = frame + parsed.l4;
  const uint32_t ports = load_raw32(l4);
  const uint32_t new_ports = (ports & ~rewrite.ports_mask) | rewrite.ports;
  store_raw32(l4, new_ports);
  uint8_t* field = l4 + (tcp ? offsetof(TcpHeader, checksum) : offsetof(UdpHeader, checksum));
  const uint16_t checksum = load_raw16(field);
  if (tcp || checksum != 0) {
    const uint16_t now = repaired(checksum, addresses + difference(ports, new_ports));
    store_raw16(field, tcp ? now : udp_nonzero(now));
  }
  std::memcpy(&view.key->l4_src, &new_ports, 4);
}

void write_l2(const Rewrite& rewrite, PacketView view, uint8_t* frame) {
  write_masked(frame, rewrite.l2_value, rewrite.l2_mask);
  std::memcpy(view.key->eth_dst, frame, 6);
  std::memcpy(view.key->eth_src, frame + 6, 6);
}

/// The ops as they were written, on packet k alone; true if it is still there.
bool run_as_written(Execution& x, const OpBurst& burst, size_t k) {
  const std::vector<Op>& ops = burst.ops[k]->rewrite->ops;
  OpBurst alone;
  alone.block = burst.block;
  alone.nesting = burst.nesting;
  alone.count = 0;
  alone.add(burst.at[k], ops.data(), burst.rule[k]);
  run_ops(x, alone, ops.size(), false);
  return alone.count != 0;
}

void run(Execution& x, OpBurst& burst) {
  size_t kept = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    const Rewrite& rewrite = *burst.ops[k]->rewrite;
    const PacketView view = burst.view(k);
    auto* frame = rte_pktmbuf_mtod(view.packet, uint8_t*);
    if (is_usual(rewrite, view, frame)) [[likely]] {
      write_l2(rewrite, view, frame);
      if (rewrite.needs_ipv4 || rewrite.dec_ttl) write_ipv4(rewrite, view, frame);
    } else if (!run_as_written(x, burst, k)) {
      continue;
    }
    if (kept != k) burst.keep(kept, k);
    ++kept;
  }
  burst.count = kept;
}

match::WordSet reads(const Op& op) {
  match::WordSet words = 0;
  for (const Op& each : op.rewrite->ops) {
    if (each.operation->reads != nullptr) words |= each.operation->reads(each);
  }
  return words;
}

match::WordSet changes(const Op& op) {
  match::WordSet words = 0;
  for (const Op& each : op.rewrite->ops) {
    if (each.operation->changes != nullptr) words |= each.operation->changes(each);
  }
  return words;
}

/// Takes an op into the rewrite; false: it has no place there.
bool take(const Op& op, Rewrite& rewrite) {
  const auto masked32 = [&op](uint32_t& value, uint32_t& mask) {
    std::memcpy(&value, op.bytes.data(), 4);
    mask = ~uint32_t{0};
  };
  const auto port = [&](uint8_t proto, size_t at) {
    if (rewrite.proto != 0 && rewrite.proto != proto) return false;
    rewrite.proto = proto;
    rewrite.needs_ipv4 = true;
    std::memcpy(reinterpret_cast<uint8_t*>(&rewrite.ports) + at, op.bytes.data(), 2);
    std::memset(reinterpret_cast<uint8_t*>(&rewrite.ports_mask) + at, 0xff, 2);
    return true;
  };
  if (op.operation == &DecNwTtlAction::operation()) {
    if (rewrite.dec_ttl) return false;
    return rewrite.dec_ttl = true;
  }
  if (op.operation != &SetFieldAction::operation()) return false;
  switch (op.field) {
    case Field::eth_dst:
    case Field::eth_src: {
      const size_t at = op.field == Field::eth_dst ? 0 : 6;
      std::memcpy(rewrite.l2_value + at, op.bytes.data(), 6);
      std::memset(rewrite.l2_mask + at, 0xff, 6);
      return true;
    }
    case Field::ipv4_src:
      rewrite.needs_ipv4 = true;
      masked32(rewrite.src, rewrite.src_mask);
      return true;
    case Field::ipv4_dst:
      rewrite.needs_ipv4 = true;
      masked32(rewrite.dst, rewrite.dst_mask);
      return true;
    case Field::udp_src:
      return port(packet::kProtoUdp, 0);
    case Field::udp_dst:
      return port(packet::kProtoUdp, 2);
    case Field::tcp_src:
      return port(packet::kProtoTcp, 0);
    case Field::tcp_dst:
      return port(packet::kProtoTcp, 2);
    default:
      return false;
  }
}

}  // namespace

std::vector<Op> with_rewrites(std::vector<Op> ops) {
  std::vector<Op> made;
  for (size_t i = 0; i < ops.size();) {
    auto rewrite = std::make_shared<Rewrite>();
    size_t end = i;
    while (end < ops.size() && take(ops[end], *rewrite)) ++end;
    if (end < i + 2) {
      made.push_back(std::move(ops[i++]));
      continue;
    }
    for (; i < end; ++i) rewrite->ops.push_back(std::move(ops[i]));
    Op op = make_op(operation_rewrite);
    op.rewrite = rewrite.get();
    op.owner = std::move(rewrite);
    made.push_back(std::move(op));
  }
  return made;
}

/// No action: it has no form on the wire, and its ops have references of their own.
extern const Operation operation_rewrite{
    .name = "rewrite",
    .order = SetOrder::set,
    .reads = reads,
    .changes = changes,
    .changes_layout = true,
    .run = run,
};

}  // namespace headrace::pipeline
