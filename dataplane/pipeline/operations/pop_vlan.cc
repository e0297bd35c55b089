// SPDX-License-Identifier: Apache-2.0
// OFPAT_POP_VLAN: takes the outermost VLAN tag off.
#include "pipeline/operations/forms.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 18;

void learn(const Action&, KnownHeaders& known) {
  known.vlan = false;
}

bool pop(PacketView view, const Op&, packet::Depth depth) {
  return packet::pop_vlan(view.packet, *view.parsed, depth);
}

bool reference(ReferencePacket& packet, const Action&) {
  return refreshed(packet, packet::pop_vlan(packet.mbuf, packet.parsed, packet::Depth::full));
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode_bare<PopVlanAction>}};

}  // namespace

extern const Operation operation_pop_vlan{
    .name = "pop_vlan",
    .forms = kForms,
    .encode = encode_bare<kType>,
    .learn = learn,
    .order = SetOrder::pop,
    .compile = compile_bare<PopVlanAction>,
    .changes = constant_words<match::kAllWords>,
    .changes_layout = true,
    .changes_length = true,
    .run = run_pop<pop>,
    .reference = reference,
};

const Operation& PopVlanAction::operation() {
  return operation_pop_vlan;
}

}  // namespace headrace::pipeline
