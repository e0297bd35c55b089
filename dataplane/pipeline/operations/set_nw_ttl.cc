// SPDX-License-Identifier: Apache-2.0
// OFPAT_SET_NW_TTL: the TTL of IPv4, the hop limit of IPv6.
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 23;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  return Action(SetNwTtlAction{body.u8()});
}

void encode(wire::Writer& writer, const Action& action) {
  encode_head(writer, kType, 8);
  writer.u8(action.arguments<SetNwTtlAction>().ttl);
  writer.zeros(3);
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(SetNwTtlAction::operation());
  op.ttl = action.arguments<SetNwTtlAction>().ttl;
  return op;
}

bool edit(PacketView view, const Op& op) {
  return packet::set_nw_ttl(view.packet, *view.parsed, op.ttl);
}

bool reference(ReferencePacket& packet, const Action& action) {
  return refreshed(packet, packet::set_nw_ttl(packet.mbuf, packet.parsed,
                                              action.arguments<SetNwTtlAction>().ttl));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_set_nw_ttl{
    .name = "mod_nw_ttl",
    .forms = kForms,
    .encode = encode,
    .order = SetOrder::set,
    .compile = compile,
    .reads = constant_words<kIpWord>,
    .changes_layout = true,
    .run = run_edit<edit>,
    .reference = reference,
};

const Operation& SetNwTtlAction::operation() {
  return operation_set_nw_ttl;
}

}  // namespace headrace::pipeline
