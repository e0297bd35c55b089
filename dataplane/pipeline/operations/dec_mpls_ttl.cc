// SPDX-License-Identifier: Apache-2.0
// OFPAT_DEC_MPLS_TTL: the TTL of the outermost label stack entry goes down; the controller gets
// what has none left (OFPR_INVALID_TTL).
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

using packet::TtlResult;

constexpr uint16_t kType = 16;

void run(Execution& x, OpBurst& burst) {
  size_t kept = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    const PacketView view = burst.view(k);
    if (packet::dec_mpls_ttl(view.packet, *view.parsed) == TtlResult::expired) [[unlikely]] {
      expire_ttl(x, view, *burst.rule[k]);
      continue;
    }
    if (kept != k) burst.keep(kept, k);
    ++kept;
  }
  burst.count = kept;
}

bool reference(ReferencePacket& packet, const Action&) {
  if (packet::dec_mpls_ttl(packet.mbuf, packet.parsed) == TtlResult::expired) {
    packet.sw.punt(packet, PuntReason::invalid_ttl);
    return false;
  }
  packet.refresh();
  return true;
}

constexpr WireForm kForms[] = {
    {.type = kType, .length = 8, .decode = decode_bare<DecMplsTtlAction>}};

}  // namespace

extern const Operation operation_dec_mpls_ttl{
    .name = "dec_mpls_ttl",
    .forms = kForms,
    .encode = encode_bare<kType>,
    .order = SetOrder::dec_ttl,
    .compile = compile_bare<DecMplsTtlAction>,
    .reads = constant_words<kMplsWord>,
    .changes_layout = true,
    .run = run,
    .reference = reference,
};

const Operation& DecMplsTtlAction::operation() {
  return operation_dec_mpls_ttl;
}

}  // namespace headrace::pipeline
