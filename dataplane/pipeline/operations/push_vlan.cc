// SPDX-License-Identifier: Apache-2.0
// OFPAT_PUSH_VLAN: a VLAN tag in front of those that are there (OpenFlow 1.3.5, 5.12.1).
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 17;

bool is_tag_type(uint16_t ethertype) {
  return ethertype == 0x8100 || ethertype == 0x88a8;
}

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const uint16_t ethertype = body.u16();
  if (!is_tag_type(ethertype)) return tl::unexpected(of_error::kBadActionArgument);
  return Action(PushVlanAction{ethertype});
}

void learn(const Action&, KnownHeaders& known) {
  known.vlan = true;
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(PushVlanAction::operation());
  op.ethertype = action.arguments<PushVlanAction>().ethertype;
  if (!is_tag_type(op.ethertype)) return tl::unexpected(of_error::kBadActionArgument);
  return op;
}

bool push(PacketView view, const Op& op, packet::Depth depth) {
  return packet::push_vlan(view.packet, *view.parsed, op.ethertype, depth);
}

bool reference(ReferencePacket& packet, const Action& action) {
  return refreshed(
      packet, packet::push_vlan(packet.mbuf, packet.parsed,
                                action.arguments<PushVlanAction>().ethertype, packet::Depth::full));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_push_vlan{
    .name = "push_vlan",
    .forms = kForms,
    .encode = encode_ethertype<kType, PushVlanAction>,
    .learn = learn,
    .order = SetOrder::push_vlan,
    .compile = compile,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run_push<push, sizeof(packet::VlanTag)>,
    .reference = reference,
};

const Operation& PushVlanAction::operation() {
  return operation_push_vlan;
}

}  // namespace headrace::pipeline
