// SPDX-License-Identifier: Apache-2.0
// OFPAT_DEC_NW_TTL: the TTL of IPv4 or the hop limit of IPv6 goes down; the controller gets what
// has none left (OFPR_INVALID_TTL).
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

using packet::TtlResult;

constexpr uint16_t kType = 24;

bool fuse(const Op&, Rule& rule) {
  if ((rule.edits & kEditTtl) != 0) return false;
  rule.edits |= kEditTtl;
  return true;
}

void run(Execution& x, OpBurst& burst) {
  size_t kept = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    const PacketView view = burst.view(k);
    if (packet::dec_nw_ttl(view.packet, *view.parsed) == TtlResult::expired) [[unlikely]] {
      expire_ttl(x, view, *burst.rule[k]);
      continue;
    }
    if (kept != k) burst.keep(kept, k);
    ++kept;
  }
  burst.count = kept;
}

bool reference(ReferencePacket& packet, const Action&) {
  if (packet::dec_nw_ttl(packet.mbuf, packet.parsed) == TtlResult::expired) {
    packet.sw.punt(packet, PuntReason::invalid_ttl);
    return false;
  }
  packet.refresh();
  return true;
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode_bare<DecNwTtlAction>}};

}  // namespace

extern const Operation operation_dec_nw_ttl{
    .name = "dec_ttl",
    .forms = kForms,
    .encode = encode_bare<kType>,
    .order = SetOrder::dec_ttl,
    .compile = compile_bare<DecNwTtlAction>,
    .reads = constant_words<kIpWord>,
    .changes_layout = true,
    .fuse = fuse,
    .run = run,
    .reference = reference,
};

const Operation& DecNwTtlAction::operation() {
  return operation_dec_nw_ttl;
}

}  // namespace headrace::pipeline
