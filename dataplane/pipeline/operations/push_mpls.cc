// SPDX-License-Identifier: Apache-2.0
// OFPAT_PUSH_MPLS: a label stack entry in front of those that are there (OpenFlow 1.3.5, 5.12.1).
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 19;

bool is_mpls_type(uint16_t ethertype) {
  return ethertype == 0x8847 || ethertype == 0x8848;
}

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const uint16_t ethertype = body.u16();
  if (!is_mpls_type(ethertype)) return tl::unexpected(of_error::kBadActionArgument);
  return Action(PushMplsAction{ethertype});
}

void learn(const Action& action, KnownHeaders& known) {
  known.eth_type = action.arguments<PushMplsAction>().ethertype;
  known.forget_payload();
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(PushMplsAction::operation());
  op.ethertype = action.arguments<PushMplsAction>().ethertype;
  if (!is_mpls_type(op.ethertype)) return tl::unexpected(of_error::kBadActionArgument);
  return op;
}

bool push(PacketView view, const Op& op, packet::Depth depth) {
  return packet::push_mpls(view.packet, *view.parsed, op.ethertype, depth);
}

bool reference(ReferencePacket& packet, const Action& action) {
  return refreshed(
      packet, packet::push_mpls(packet.mbuf, packet.parsed,
                                action.arguments<PushMplsAction>().ethertype, packet::Depth::full));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_push_mpls{
    .name = "push_mpls",
    .forms = kForms,
    .encode = encode_ethertype<kType, PushMplsAction>,
    .learn = learn,
    .order = SetOrder::push_mpls,
    .compile = compile,
    .reads = constant_words<kMplsWord>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run_push<push, sizeof(packet::MplsEntry)>,
    .reference = reference,
};

const Operation& PushMplsAction::operation() {
  return operation_push_mpls;
}

}  // namespace headrace::pipeline
