// SPDX-License-Identifier: Apache-2.0
// OFPAT_POP_PBB: takes a backbone header and its I-TAG off; the customer's frame remains.
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 27;

void learn(const Action&, KnownHeaders& known) {
  known.eth_type.reset();
  known.vlan = false;
  known.forget_payload();
}

bool pop(PacketView view, const Op&, packet::Depth depth) {
  return packet::pop_pbb(view.packet, *view.parsed, depth);
}

bool reference(ReferencePacket& packet, const Action&) {
  return refreshed(packet, packet::pop_pbb(packet.mbuf, packet.parsed, packet::Depth::full));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode_bare<PopPbbAction>}};

}  // namespace

extern const Operation operation_pop_pbb{
    .name = "pop_pbb",
    .forms = kForms,
    .encode = encode_bare<kType>,
    .learn = learn,
    .order = SetOrder::pop,
    .compile = compile_bare<PopPbbAction>,
    .reads = constant_words<kPbbWord>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run_pop<pop>,
    .reference = reference,
};

const Operation& PopPbbAction::operation() {
  return operation_pop_pbb;
}

}  // namespace headrace::pipeline
