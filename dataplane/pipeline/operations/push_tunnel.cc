// SPDX-License-Identifier: Apache-2.0
// Headrace's experimenter action push: a tunnel's headers in front of the packet.
//
// On the wire, after the subtype (experimenter.h), 62 octets:
//
//    2  kind: 1 VXLAN, 2 GRE, 3 GTP-U      u8
//    3  flags, PushFlag                    u8
//    4  TOS, 5 TTL of the outer header     u8, u8
//    6  UDP destination port, 0: the protocol's own   u16
//    8  tunnel id                          u64
//   16  outer Ethernet source, destination 2 * 6 octets
//   28  0                                  u32
//   32  outer IP source, destination       2 * 16 octets, IPv4 in the first four, the rest 0
#include "pipeline/execute/flow_hash.h"
#include "pipeline/execute/tunnel_results.h"
#include "pipeline/operations/experimenter.h"
#include "pipeline/operations/prerequisites.h"
#include "pipeline/program/rule.h"

namespace headrace::pipeline {
namespace {

using packet::TunnelKind;
using packet::TunnelSpec;

/// Bits of the octet at offset 3.
enum PushFlag : uint8_t {
  kPushIpv6 = 1 << 0,
  kPushKey = 1 << 1,  ///< GRE: with the key field
  kPushChecksum = 1 << 2,
  kPushDontFragment = 1 << 3,
  kPushLayer3 = 1 << 4,  ///< GRE: carry IP; GTP-U always does
  kPushIdFromField = 1 << 5,
  kPushInheritTos = 1 << 6,
  kPushInheritTtl = 1 << 7,
};

template <size_t size>
void take(wire::Reader& reader, std::array<uint8_t, size>& to) {
  const wire::Bytes bytes = reader.bytes(size);
  std::copy(bytes.begin(), bytes.end(), to.begin());
}

/// An IPv4 address must not have more than four octets.
bool fits(const TunnelSpec& spec, const packet::TunnelAddress& address) {
  return spec.ipv6 || all_zero(wire::Bytes(address).subspan(4));
}

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  PushTunnelAction action;
  TunnelSpec& spec = action.spec;
  const uint8_t kind = body.u8();
  const uint8_t flags = body.u8();
  spec.tos = body.u8();
  spec.ttl = body.u8();
  spec.dst_port = body.u16();
  spec.id = body.u64();
  take(body, spec.src_mac);
  take(body, spec.dst_mac);
  const uint32_t zero = body.u32();
  take(body, spec.local);
  take(body, spec.remote);
  if (!body.ok()) return tl::unexpected(of_error::kBadActionLength);
  if (kind < 1 || kind > 3) return tl::unexpected(of_error::kBadActionArgument);
  spec.kind = static_cast<TunnelKind>(kind);
  spec.ipv6 = (flags & kPushIpv6) != 0;
  spec.has_key = (flags & kPushKey) != 0;
  spec.checksum = (flags & kPushChecksum) != 0;
  spec.dont_fragment = (flags & kPushDontFragment) != 0;
  spec.layer3 = (flags & kPushLayer3) != 0;
  spec.inherit_tos = (flags & kPushInheritTos) != 0;
  spec.inherit_ttl = (flags & kPushInheritTtl) != 0;
  action.id_from_field = (flags & kPushIdFromField) != 0;
  const bool good = zero == 0 && spec.ttl != 0 && spec.id <= packet::largest_id(spec.kind) &&
                    fits(spec, spec.local) && fits(spec, spec.remote);
  if (!good) return tl::unexpected(of_error::kBadActionArgument);
  return Action(action);
}

void encode(wire::Writer& writer, const Action& action) {
  const auto& push = action.arguments<PushTunnelAction>();
  const TunnelSpec& spec = push.spec;
  const auto flag = [](bool set, PushFlag bit) { return set ? unsigned{bit} : 0u; };
  const ExperimenterWriter whole(writer, action, experimenter_subtype::kPushTunnel);
  writer.u8(static_cast<uint8_t>(spec.kind));
  writer.u8(static_cast<uint8_t>(
      flag(spec.ipv6, kPushIpv6) | flag(spec.has_key, kPushKey) |
      flag(spec.checksum, kPushChecksum) | flag(spec.dont_fragment, kPushDontFragment) |
      flag(spec.layer3, kPushLayer3) | flag(push.id_from_field, kPushIdFromField) |
      flag(spec.inherit_tos, kPushInheritTos) | flag(spec.inherit_ttl, kPushInheritTtl)));
  writer.u8(spec.tos);
  writer.u8(spec.ttl);
  writer.u16(spec.dst_port);
  writer.u64(spec.id);
  writer.bytes(spec.src_mac);
  writer.bytes(spec.dst_mac);
  writer.u32(0);
  writer.bytes(spec.local);
  writer.bytes(spec.remote);
}

void learn(const Action& action, KnownHeaders& known) {
  const TunnelSpec& spec = action.arguments<PushTunnelAction>().spec;
  constexpr uint8_t kGre = 47;
  constexpr uint8_t kUdp = 17;
  known.eth_type = spec.ipv6 ? 0x86dd : 0x0800;
  known.vlan = false;
  known.forget_payload();
  known.ip_proto = spec.kind == TunnelKind::gre ? kGre : kUdp;
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  const auto& push = action.arguments<PushTunnelAction>();
  if (push.spec.id > packet::largest_id(push.spec.kind) || push.spec.ttl == 0) {
    return tl::unexpected(of_error::kBadActionArgument);
  }
  Op op = make_op(PushTunnelAction::operation());
  op.argument = push.id_from_field ? 1 : 0;
  auto header = std::make_shared<packet::TunnelHeader>(push.spec);
  op.tunnel = header.get();
  op.owner = std::move(header);
  return op;
}

bool fuse(const Op& op, Rule& rule) {
  rule.forward.tunnel = op.tunnel;
  rule.edits |= kEditTunnel;
  if (op.argument != 0) rule.edits |= kEditTunnelId;
  return true;
}

uint64_t id_of(const Op& op, const match::FlowKey& key) {
  return op.argument != 0 ? packet::swap64(key.tunnel_id) : op.tunnel->spec().id;
}

void run(Execution& x, OpBurst& burst) {
  edit_each(x, burst, [&](size_t k) {
    const Op& op = *burst.ops[k];
    const PacketView view = burst.view(k);
    const DropReason reason =
        drop_reason(op.tunnel->push(view.packet, *view.parsed, id_of(op, *view.key),
                                    entropy_of(flow_hash64(view.packet, *view.parsed))));
    if (reason != DropReason::none) [[unlikely]] {
      return reason;
    }
    match::refresh(x.burst.parse_depth, view.packet, *view.key, *view.parsed);
    return DropReason::none;
  });
}

bool reference(ReferencePacket& packet, const Action& action) {
  const auto& push = action.arguments<PushTunnelAction>();
  const uint64_t id = push.id_from_field ? __builtin_bswap64(packet.key.tunnel_id) : push.spec.id;
  const packet::TunnelResult result = packet::TunnelHeader(push.spec).push(
      packet.mbuf, packet.parsed, id, entropy_of(flow_hash64(packet.mbuf, packet.parsed)));
  if (result != packet::TunnelResult::done) packet.sw.refuse(packet, drop_reason(result));
  return refreshed(packet, result == packet::TunnelResult::done);
}

constexpr WireForm kForms[] = {{.type = kExperimenterAction,
                                .experimenter = kHeadraceExperimenter,
                                .subtype = experimenter_subtype::kPushTunnel,
                                .decode = decode}};

}  // namespace

extern const Operation operation_push_tunnel{
    .name = "push_tunnel",
    .forms = kForms,
    .encode = encode,
    .learn = learn,
    .order = SetOrder::push_tunnel,
    .compile = compile,
    .reads = constant_words<kIpAndL4Words>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .fuse = fuse,
    .run = run,
    .reference = reference,
};

const Operation& PushTunnelAction::operation() {
  return operation_push_tunnel;
}

}  // namespace headrace::pipeline
