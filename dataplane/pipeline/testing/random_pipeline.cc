// SPDX-License-Identifier: Apache-2.0
#include "pipeline/testing/random_pipeline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "packet/checksum.h"
#include "packet/tunnel.h"
#include "pipeline/testing/random_actions.h"

namespace headrace::pipeline::test {
namespace {

using match::Field;

GroupMod choose_group(const Choose& choose, uint32_t id) {
  GroupMod group;
  group.group_id = id;
  group.type = static_cast<GroupMod::Type>(choose(4));
  const size_t buckets = group.type == GroupMod::Type::indirect ? 1 : choose(4);
  for (size_t i = 0; i < buckets; ++i) {
    Bucket bucket;
    if (group.type == GroupMod::Type::select) bucket.weight = static_cast<uint16_t>(choose(4));
    if (group.type == GroupMod::Type::fast_failover) {
      if (choose(3) != 0) bucket.watch_port = static_cast<PortNo>(1 + choose(kRandomPorts + 2));
      if (id != 0 && (bucket.watch_port == kPortAny || choose(3) == 0)) {
        bucket.watch_group = static_cast<uint32_t>(choose(id));
      } else if (bucket.watch_port == kPortAny) {
        bucket.watch_port = 1;
      }
    }
    bucket.actions = choose_actions(choose, id, 3);  // earlier groups only: no loops
    group.buckets.push_back(bucket);
  }
  return group;
}

match::Match choose_match(const Choose& choose) {
  std::vector<FieldValue> fields;
  if (choose(3) == 0) fields.push_back({Field::in_port, 1 + choose(kRandomPorts)});
  if (choose(3) == 0) {
    fields.push_back(
        {Field::eth_dst, choose_mac(choose), choose(3) == 0 ? 0xff00000000ff : ~uint64_t{0}});
  }
  if (choose(4) == 0) {
    fields.push_back(choose(3) == 0 ? FieldValue{Field::vlan_vid, 0x1000, 0x1000}
                                    : FieldValue{Field::vlan_vid, 0x1000 + choose(4)});
  }
  if (choose(6) == 0) fields.push_back({Field::tunnel_id, choose(4)});
  if (choose(12) == 0) {
    fields.push_back(choose_tunnel_address(choose, Field::tun_dst, Field::tun_ipv6_dst));
    FieldValue& chosen = fields.back();
    if (chosen.field == Field::tun_ipv6_dst && chosen.value > 3) {
      chosen.mask = ~uint64_t{3};
      chosen.value &= chosen.mask;
    }
  }
  if (choose(5) == 0) fields.push_back({Field::metadata, choose(4), choose(2) != 0 ? 3u : 1u});
  if (choose(2) == 0) {
    fields.push_back({Field::eth_type, 0x0800});
    if (choose(2) == 0) {
      const uint64_t mask = 0xffffffffull << choose(25) & 0xffffffff;
      fields.push_back({Field::ipv4_dst, choose_address(choose) & mask, mask});
    }
    if (choose(3) == 0) fields.push_back({Field::ipv4_src, choose_address(choose)});
    if (choose(3) == 0) {
      fields.push_back({Field::ip_proto, 17});
      fields.push_back({Field::udp_dst, choose_port(choose)});
    }
  } else if (choose(4) == 0) {
    switch (choose(8)) {
      case 4:
        fields.push_back({Field::eth_type, 0x0806});
        if (choose(2) == 0) fields.push_back({Field::arp_op, 1 + choose(2)});
        if (choose(3) == 0) fields.push_back({Field::arp_tpa, choose_address(choose)});
        if (choose(3) == 0) fields.push_back({Field::arp_sha, choose_mac(choose)});
        break;
      case 5: {
        fields.push_back({Field::eth_type, 0x86dd});
        const uint64_t mask = ~uint64_t{0} << choose(4);
        fields.push_back({Field::ipv6_dst, choose_host(choose) & mask, mask});
        if (choose(3) == 0) fields.push_back({Field::ipv6_src, choose_host(choose)});
        break;
      }
      case 6:
        fields.push_back({Field::eth_type, 0x86dd});
        fields.push_back({Field::ip_proto, 58});
        fields.push_back({Field::icmpv6_type, 135 + choose(2)});
        if (choose(2) == 0) fields.push_back({Field::ipv6_nd_target, choose_host(choose)});
        if (choose(3) == 0) fields.push_back({Field::ipv6_nd_sll, choose_mac(choose)});
        break;
      case 7:
        fields.push_back({Field::eth_type, 0x0800});
        fields.push_back({Field::ip_proto, choose(2) == 0 ? 1u : 132u});
        if (fields.back().value == 1) {
          fields.push_back({Field::icmpv4_type, choose(9)});
        } else {
          fields.push_back({Field::sctp_dst, choose_port(choose)});
        }
        break;
      case 0:
        fields.push_back({Field::eth_type, 0x86dd});
        if (choose(2) == 0) fields.push_back({Field::ipv6_exthdr, choose(512), choose(512)});
        if (choose(3) == 0) fields.push_back({Field::ipv6_flabel, choose(4)});
        break;
      case 1:
        fields.push_back({Field::eth_type, 0x88e7});
        if (choose(2) == 0) fields.push_back({Field::pbb_isid, choose(3)});
        break;
      default:
        fields.push_back({Field::eth_type, 0x8847});
        if (choose(2) == 0) fields.push_back({Field::mpls_bos, choose(2)});
        if (choose(3) == 0) fields.push_back({Field::mpls_label, choose(5)});
        break;
    }
  }
  for (FieldValue& field : fields) {
    if (field.mask != ~uint64_t{0}) field.value &= field.mask;
  }
  return make_match(fields);
}

/// Puts tags, labels, a backbone header or a tunnel around a frame.
Bytes wrap(const Choose& choose, Bytes frame) {
  const auto at_type = [&](std::initializer_list<int> bytes) {
    std::vector<uint8_t> header;
    for (const int byte : bytes) header.push_back(static_cast<uint8_t>(byte));
    frame.insert(frame.begin() + 12, header.begin(), header.end());
  };
  const auto small = [&](uint64_t below) { return static_cast<int>(choose(below)); };
  switch (choose(4)) {
    case 0:  // QinQ
      at_type({0x81, 0x00, small(8) << 5, small(4)});
      at_type({0x88, 0xa8, small(8) << 5, small(4)});
      break;
    case 1: {  // a stack of labels: what was the type is the first octets of what it carries
      const int depth = 1 + small(3);
      for (int i = 0; i < depth; ++i) {
        const int bottom = i == 0 ? 1 : 0;
        frame.insert(frame.begin() + 14, {0, 0, static_cast<uint8_t>(small(8) << 5 | bottom),
                                          static_cast<uint8_t>(small(3))});
      }
      frame[12] = 0x88;
      frame[13] = 0x47;
      break;
    }
    case 2: {  // a backbone header
      const Bytes backbone = {2,    0,    0,
                              0,    0,    1,
                              2,    0,    0,
                              0,    0,    2,
                              0x88, 0xe7, static_cast<uint8_t>(small(2) << 3),
                              0,    0,    static_cast<uint8_t>(small(3))};
      frame.insert(frame.begin(), backbone.begin(), backbone.end());
      break;
    }
    default: {
      rte_mbuf* packet = make_packet(frame);
      packet::ParsedPacket parsed = packet::parse(frame, packet::Depth::full);
      const PushTunnelAction push = choose_push_tunnel(choose);
      (void)packet::TunnelHeader(push.spec).push(packet, parsed, push.spec.id, 0);
      frame = bytes_of(packet);
      rte_pktmbuf_free(packet);
      break;
    }
  }
  return frame;
}

/// What ARP says, after an Ethernet header whose type is there.
Bytes make_arp_frame(const Choose& choose, const Bytes& ethernet) {
  Bytes frame(ethernet.begin(), ethernet.begin() + 14);
  const auto add = [&](uint64_t value, size_t size) {
    for (size_t i = size; i-- > 0;) frame.push_back(static_cast<uint8_t>(value >> 8 * i));
  };
  add(0x0001080006040000 + 1 + choose(2), 8);
  for (int end = 0; end < 2; ++end) {
    add(choose_mac(choose), 6);
    add(choose_address(choose), 4);
  }
  frame.insert(frame.end(), 18, 0);
  return frame;
}

/// Gives an untagged IPv4 frame what most have not: an option, or an offset or more to come.
void make_rare_ipv4(const Choose& choose, Bytes& frame) {
  constexpr size_t kIp = 14;
  if (choose(2) == 0) {
    frame[kIp] = 0x46;
    frame.insert(frame.begin() + kIp + 20, {1, 1, 1, 0});
    frame[kIp + 3] = static_cast<uint8_t>(frame.size() - kIp);
  } else {
    frame[kIp + 6] = static_cast<uint8_t>(choose(2) << 5);
    frame[kIp + 7] = static_cast<uint8_t>(choose(3));
  }
  frame[kIp + 10] = frame[kIp + 11] = 0;
  const size_t length = size_t{frame[kIp] & 0x0fu} * 4;
  packet::store_raw16(&frame[kIp + 10], packet::checksum({&frame[kIp], length}));
}

/// An IPv6 packet with a few extension headers, and UDP or neighbor discovery.
Bytes make_ipv6_frame(const Choose& choose, const Bytes& ethernet) {
  Bytes frame(ethernet.begin(), ethernet.begin() + 12);
  const auto add = [&](std::initializer_list<int> bytes) {
    for (const int byte : bytes) frame.push_back(static_cast<uint8_t>(byte));
  };
  if (choose(3) == 0) {
    const int type = 135 + static_cast<int>(choose(2));
    const int host = static_cast<int>(choose_host(choose));
    add({0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255});
    for (const int end : {1, host}) add({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end});
    add({type, 0, 0, 0, 0, 0, 0, 0});
    add({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host});
    add({static_cast<int>(1 + choose(2)), 1, 2, 0, 0, 0, 0, static_cast<int>(choose(5))});
    return frame;
  }
  constexpr int kHeaders[] = {0, 43, 60, 44, 51};
  std::vector<int> chain;
  for (size_t left = choose(4); left > 0; --left) chain.push_back(kHeaders[choose(5)]);
  chain.push_back(17);
  const int label = static_cast<int>(choose(4));
  add({0x86, 0xdd, 0x60, 0, 0, label, 0, static_cast<int>(8 * chain.size() + 8), chain[0],
       1 + 63 * (choose(8) != 0 ? 1 : 0)});
  for (int host = 1; host <= 2; ++host)
    add({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host});
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    const bool fragment = chain[i] == 44;
    add({chain[i + 1], 0, 0, fragment && choose(3) == 0 ? 1 : 0, 0, 0, 0, 7});
  }
  const int port = static_cast<int>(choose_port(choose));
  add({port >> 8, port & 255, port >> 8, port & 255, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8});
  return frame;
}

}  // namespace

InstructionList make_instructions(const Choose& choose, uint8_t table, size_t n_groups) {
  InstructionList instructions;
  const auto go = [&] { return GotoTable{static_cast<uint8_t>(table + 1 + choose(3u - table))}; };
  // Nothing but a group, or a tunnel's end: these have paths of their own.
  if (choose(6) == 0) {
    return {ApplyActions{{GroupAction{static_cast<uint32_t>(choose(n_groups))}}}};
  }
  if (table < 3 && choose(8) == 0) {
    return {ApplyActions{{PopTunnelAction{choose_kind(choose)}}}, go()};
  }
  if (choose(3) != 0) instructions.emplace_back(ApplyActions{choose_actions(choose, n_groups, 4)});
  if (choose(8) == 0) instructions.emplace_back(ClearActions{});
  if (choose(3) == 0) instructions.emplace_back(WriteActions{choose_actions(choose, n_groups, 3)});
  if (choose(4) == 0) instructions.emplace_back(WriteMetadata{choose(4), choose(4)});
  if (table < 3 && choose(5) < 3) {
    instructions.emplace_back(go());
  }
  return instructions;
}

RandomPipeline make_pipeline(const Choose& choose) {
  RandomPipeline made;
  for (uint32_t id = 0; id < 3; ++id) made.groups.push_back(choose_group(choose, id));
  const size_t n_groups = made.groups.size();
  for (uint8_t table = 0; table < 4; ++table) {
    const auto add = [&](uint16_t priority, match::Match match) {
      FlowMod mod =
          add_flow(table, priority, std::move(match), make_instructions(choose, table, n_groups));
      mod.cookie = choose(1000);
      made.flows.push_back(std::move(mod));
    };
    switch (choose(4)) {
      case 0:  // a few rules of any kind
        for (uint16_t i = static_cast<uint16_t>(choose(7)); i > 0; --i)
          add(i, choose_match(choose));
        break;
      case 1:  // one mask
        for (size_t i = choose(40); i > 0; --i) {
          add(7, make_match({{Field::eth_dst, choose_mac(choose)},
                             {Field::in_port, 1 + choose(kRandomPorts)}}));
        }
        break;
      case 2:  // prefixes
        for (size_t i = choose(60); i > 0; --i) {
          const uint64_t length = choose(33);
          const uint64_t mask = length == 0 ? 0 : 0xffffffffull << (32 - length) & 0xffffffff;
          add(static_cast<uint16_t>(100 + length),
              make_match({{Field::eth_type, 0x0800},
                          {Field::ipv4_dst, choose_address(choose) & mask, mask}}));
        }
        break;
      default:  // anything
        for (auto i = static_cast<uint16_t>(choose(60)); i > 0; --i) add(i, choose_match(choose));
        break;
    }
    if (choose(2) == 0) add(0, {});
  }
  return made;
}

Bytes make_random_frame(const Choose& choose) {
  FrameSpec spec;
  const uint64_t dst = choose_mac(choose);
  const uint64_t src = choose_mac(choose);
  for (size_t i = 0; i < 6; ++i) {
    spec.dst[i] = static_cast<uint8_t>(dst >> 8 * (5 - i));
    spec.src[i] = static_cast<uint8_t>(src >> 8 * (5 - i));
  }
  spec.vlan = choose(3) == 0 ? static_cast<int>(choose(4)) : -1;
  constexpr uint16_t kTypes[] = {0x0800, 0x0800, 0x0800, 0x0800, 0x0800, 0x86dd, 0x0806, 0x8847};
  spec.eth_type = kTypes[choose(8)];
  spec.ip_src = choose_address(choose);
  spec.ip_dst = choose_address(choose);
  spec.ttl = static_cast<uint8_t>(choose(8) == 0 ? choose(3) : 64);
  constexpr uint8_t kProtos[] = {17, 17, 17, 17, 6, 6, 1, 132};
  spec.proto = kProtos[choose(8)];
  spec.dscp = static_cast<uint8_t>(choose(64));
  spec.l4_src = static_cast<uint16_t>(choose_port(choose));
  spec.l4_dst = static_cast<uint16_t>(choose_port(choose));
  spec.size = 60 + choose(5) * 17;
  Bytes frame = make_frame(spec);
  if (spec.eth_type == 0x86dd && spec.vlan < 0) frame = make_ipv6_frame(choose, frame);
  if (spec.eth_type == 0x0806 && spec.vlan < 0) frame = make_arp_frame(choose, frame);
  if (spec.eth_type == 0x0800 && spec.vlan < 0 && choose(8) == 0) make_rare_ipv4(choose, frame);
  if (choose(4) == 0) frame = wrap(choose, std::move(frame));
  if (choose(10) == 0) frame.resize(14 + choose(frame.size() - 14));
  if (choose(10) == 0) frame[choose(frame.size())] = static_cast<uint8_t>(choose(256));
  return frame;
}

}  // namespace headrace::pipeline::test
