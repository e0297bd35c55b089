// SPDX-License-Identifier: Apache-2.0
// OFPAT_SET_MPLS_TTL: the TTL of the outermost label stack entry.
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 15;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  return Action(SetMplsTtlAction{body.u8()});
}

void encode(wire::Writer& writer, const Action& action) {
  encode_head(writer, kType, 8);
  writer.u8(action.arguments<SetMplsTtlAction>().ttl);
  writer.zeros(3);
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(SetMplsTtlAction::operation());
  op.ttl = action.arguments<SetMplsTtlAction>().ttl;
  return op;
}

bool edit(PacketView view, const Op& op) {
  return packet::set_mpls_ttl(view.packet, *view.parsed, op.ttl);
}

bool reference(ReferencePacket& packet, const Action& action) {
  return refreshed(packet, packet::set_mpls_ttl(packet.mbuf, packet.parsed,
                                                action.arguments<SetMplsTtlAction>().ttl));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_set_mpls_ttl{
    .name = "set_mpls_ttl",
    .forms = kForms,
    .encode = encode,
    .order = SetOrder::set,
    .compile = compile,
    .reads = constant_words<kMplsWord>,
    .changes_layout = true,
    .run = run_edit<edit>,
    .reference = reference,
};

const Operation& SetMplsTtlAction::operation() {
  return operation_set_mpls_ttl;
}

}  // namespace headrace::pipeline
