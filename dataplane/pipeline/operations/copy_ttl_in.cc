// SPDX-License-Identifier: Apache-2.0
// OFPAT_COPY_TTL_IN: from the outermost header with a TTL to the next-to-outermost.
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 12;

bool edit(PacketView view, const Op&) {
  return packet::copy_ttl_in(view.packet, *view.parsed);
}

bool reference(ReferencePacket& packet, const Action&) {
  return refreshed(packet, packet::copy_ttl_in(packet.mbuf, packet.parsed));
}

constexpr WireForm kForms[] = {
    {.type = kType, .length = 8, .decode = decode_bare<CopyTtlInAction>}};

}  // namespace

extern const Operation operation_copy_ttl_in{
    .name = "copy_ttl_in",
    .forms = kForms,
    .encode = encode_bare<kType>,
    .order = SetOrder::copy_ttl_in,
    .compile = compile_bare<CopyTtlInAction>,
    .reads = constant_words<kMplsWord>,
    .changes_layout = true,
    .run = run_edit<edit>,
    .reference = reference,
};

const Operation& CopyTtlInAction::operation() {
  return operation_copy_ttl_in;
}

}  // namespace headrace::pipeline
