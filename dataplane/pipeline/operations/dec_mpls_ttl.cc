// SPDX-License-Identifier: Apache-2.0
// OFPAT_DEC_MPLS_TTL: the TTL of the outermost label stack entry goes down; the controller gets
// what has none left (OFPR_INVALID_TTL).
#include "pipeline/operations/forms.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 16;

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
    .run = run_dec_ttl<packet::dec_mpls_ttl>,
    .reference = reference_dec_ttl<packet::dec_mpls_ttl>,
};

const Operation& DecMplsTtlAction::operation() {
  return operation_dec_mpls_ttl;
}

}  // namespace headrace::pipeline
