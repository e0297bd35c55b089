// SPDX-License-Identifier: Apache-2.0
// OFPAT_PUSH_PBB: a backbone header with an I-TAG in front of the frame (OpenFlow 1.3.5, 5.12.1).
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 26;
constexpr uint16_t kPbbType = 0x88e7;
constexpr uint16_t kHeadroom = 18;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const uint16_t ethertype = body.u16();
  if (ethertype != kPbbType) return tl::unexpected(of_error::kBadActionArgument);
  return Action(PushPbbAction{ethertype});
}

void learn(const Action& action, KnownHeaders& known) {
  known.eth_type = action.arguments<PushPbbAction>().ethertype;
  known.vlan = false;
  known.forget_payload();
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  if (action.arguments<PushPbbAction>().ethertype != kPbbType) {
    return tl::unexpected(of_error::kBadActionArgument);
  }
  return make_op(PushPbbAction::operation());
}

bool push(PacketView view, const Op&, packet::Depth depth) {
  return packet::push_pbb(view.packet, *view.parsed, depth);
}

bool reference(ReferencePacket& packet, const Action&) {
  return refreshed(packet, packet::push_pbb(packet.mbuf, packet.parsed, packet::Depth::full));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_push_pbb{
    .name = "push_pbb",
    .forms = kForms,
    .encode = encode_ethertype<kType, PushPbbAction>,
    .learn = learn,
    .order = SetOrder::push_pbb,
    .compile = compile,
    .reads = constant_words<kPbbWord>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run_push<push, kHeadroom>,
    .reference = reference,
};

const Operation& PushPbbAction::operation() {
  return operation_push_pbb;
}

}  // namespace headrace::pipeline
