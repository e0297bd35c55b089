// SPDX-License-Identifier: Apache-2.0
// OFPAT_DEC_NW_TTL: the TTL of IPv4 or the hop limit of IPv6 goes down; the controller gets what
// has none left (OFPR_INVALID_TTL).
#include "pipeline/operations/forms.h"
#include "pipeline/program/rule.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 24;

bool fuse(const Op&, Rule& rule) {
  if ((rule.edits & kEditTtl) != 0) return false;
  rule.edits |= kEditTtl;
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
    .run = run_dec_ttl<packet::dec_nw_ttl>,
    .reference = reference_dec_ttl<packet::dec_nw_ttl>,
};

const Operation& DecNwTtlAction::operation() {
  return operation_dec_nw_ttl;
}

}  // namespace headrace::pipeline
