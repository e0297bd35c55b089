// SPDX-License-Identifier: Apache-2.0
// OFPAT_POP_MPLS: takes the outermost label stack entry off; the controller says what follows it.
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 20;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  return Action(PopMplsAction{body.u16()});
}

void learn(const Action& action, KnownHeaders& known) {
  known.eth_type = action.arguments<PopMplsAction>().ethertype;
  known.forget_payload();
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(PopMplsAction::operation());
  op.ethertype = action.arguments<PopMplsAction>().ethertype;
  return op;
}

bool pop(PacketView view, const Op& op, packet::Depth depth) {
  return packet::pop_mpls(view.packet, *view.parsed, op.ethertype, depth);
}

bool reference(ReferencePacket& packet, const Action& action) {
  return refreshed(
      packet, packet::pop_mpls(packet.mbuf, packet.parsed,
                               action.arguments<PopMplsAction>().ethertype, packet::Depth::full));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_pop_mpls{
    .name = "pop_mpls",
    .forms = kForms,
    .encode = encode_ethertype<kType, PopMplsAction>,
    .learn = learn,
    .order = SetOrder::pop,
    .compile = compile,
    .reads = constant_words<kMplsWord>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run_pop<pop>,
    .reference = reference,
};

const Operation& PopMplsAction::operation() {
  return operation_pop_mpls;
}

}  // namespace headrace::pipeline
