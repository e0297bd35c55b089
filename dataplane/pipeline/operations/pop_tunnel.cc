// SPDX-License-Identifier: Apache-2.0
// Headrace's experimenter action pop: takes a tunnel's headers off and parses what it carried.
//
// On the wire, after the subtype (experimenter.h): the kind (u8: 1 VXLAN, 2 GRE, 3 GTP-U) and five
// octets of 0.
#include "pipeline/execute/rule_runner.h"
#include "pipeline/execute/tunnel_results.h"
#include "pipeline/operations/experimenter.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

using packet::TunnelKind;
using packet::TunnelResult;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const uint8_t kind = body.u8();
  const wire::Bytes zero = body.bytes(5);
  if (!body.ok()) return tl::unexpected(of_error::kBadActionLength);
  if (kind < 1 || kind > 3 || !all_zero(zero)) {
    return tl::unexpected(of_error::kBadActionArgument);
  }
  return Action(PopTunnelAction{static_cast<TunnelKind>(kind)});
}

void encode(wire::Writer& writer, const Action& action) {
  const ExperimenterWriter whole(writer, action, experimenter_subtype::kPopTunnel);
  writer.u8(static_cast<uint8_t>(action.arguments<PopTunnelAction>().kind));
  writer.zeros(5);
}

/// What was carried is known to the next table only.
void learn(const Action&, KnownHeaders& known) {
  known.eth_type.reset();
  known.vlan = false;
  known.forget_payload();
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(PopTunnelAction::operation());
  op.argument = static_cast<uint32_t>(action.arguments<PopTunnelAction>().kind);
  return op;
}

/// Decapsulates and sets tunnel_id and, at depth full, the tunnel's addresses, which no rule looks
/// at otherwise. Anything but `none`: the packet is as it was.
DropReason decapsulate(PacketView view, TunnelKind kind, packet::Depth depth) noexcept {
  const packet::TunnelFound found = packet::find_tunnel(view.packet, *view.parsed, kind);
  if (found.result != TunnelResult::done) return drop_reason(found.result);
  OuterAddresses addresses;
  if (depth == packet::Depth::full) {
    addresses =
        OuterAddresses::of(rte_pktmbuf_mtod_offset(view.packet, const uint8_t*, view.parsed->l3),
                           view.parsed->has(packet::kIpv4));
  }
  if (!packet::pop_tunnel(view.packet, found)) return DropReason::tunnel_malformed;
  view.key->tunnel_id = packet::swap64(found.id);
  if (depth == packet::Depth::full) addresses.store(*view.key);
  return DropReason::none;
}

void run(Execution& x, OpBurst& burst) {
  edit_each(x, burst, [&](size_t k) {
    return decapsulate(burst.view(k), static_cast<TunnelKind>(burst.ops[k]->argument),
                       x.burst.parse_depth);
  });
  parse_again(x, *burst.block, {burst.at.data(), burst.count});
}

bool reference(ReferencePacket& packet, const Action& action) {
  const TunnelKind kind = action.arguments<PopTunnelAction>().kind;
  const packet::TunnelFound found = packet::find_tunnel(packet.mbuf, packet.parsed, kind);
  if (found.result != TunnelResult::done) {
    packet.sw.refuse(packet, drop_reason(found.result));
    return false;
  }
  const auto* frame = rte_pktmbuf_mtod(packet.mbuf, const uint8_t*);
  const std::vector<uint8_t> outer(frame, frame + packet.mbuf->data_len);
  if (!packet::pop_tunnel(packet.mbuf, found)) {
    packet.sw.refuse(packet, DropReason::tunnel_malformed);
    return false;
  }
  match::FlowKey& key = packet.key;
  key.tunnel_id = __builtin_bswap64(found.id);
  key.tun_src = key.tun_dst = 0;
  std::memset(key.tun_ipv6_src, 0, 16);
  std::memset(key.tun_ipv6_dst, 0, 16);
  if (packet.parsed.has(packet::kIpv4)) {
    std::memcpy(&key.tun_src, &outer[packet.parsed.l3 + 12u], 4);
    std::memcpy(&key.tun_dst, &outer[packet.parsed.l3 + 16u], 4);
  } else {
    std::memcpy(key.tun_ipv6_src, &outer[packet.parsed.l3 + 8u], 16);
    std::memcpy(key.tun_ipv6_dst, &outer[packet.parsed.l3 + 24u], 16);
  }
  packet.refresh();
  return true;
}

constexpr WireForm kForms[] = {{.type = kExperimenterAction,
                                .experimenter = kHeadraceExperimenter,
                                .subtype = experimenter_subtype::kPopTunnel,
                                .decode = decode}};

}  // namespace

extern const Operation operation_pop_tunnel{
    .name = "pop_tunnel",
    .forms = kForms,
    .encode = encode,
    .learn = learn,
    .order = SetOrder::pop,
    .compile = compile,
    .reads = constant_words<kIpAndL4Words>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run,
    .reference = reference,
};

const Operation& PopTunnelAction::operation() {
  return operation_pop_tunnel;
}

}  // namespace headrace::pipeline
