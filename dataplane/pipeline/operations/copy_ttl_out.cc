// SPDX-License-Identifier: Apache-2.0
// OFPAT_COPY_TTL_OUT: from the next-to-outermost header with a TTL to the outermost.
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 11;

bool edit(PacketView view, const Op&) {
  return packet::copy_ttl_out(view.packet, *view.parsed);
}

bool reference(ReferencePacket& packet, const Action&) {
  return refreshed(packet, packet::copy_ttl_out(packet.mbuf, packet.parsed));
}

constexpr WireForm kForms[] = {
    {.type = kType, .length = 8, .decode = decode_bare<CopyTtlOutAction>}};

}  // namespace

extern const Operation operation_copy_ttl_out{
    .name = "copy_ttl_out",
    .forms = kForms,
    .encode = encode_bare<kType>,
    .order = SetOrder::copy_ttl_out,
    .compile = compile_bare<CopyTtlOutAction>,
    .reads = constant_words<kMplsWord>,
    .changes_layout = true,
    .run = run_edit<edit>,
    .reference = reference,
};

const Operation& CopyTtlOutAction::operation() {
  return operation_copy_ttl_out;
}

}  // namespace headrace::pipeline
