// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/acl.h"

#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>
#include <cstddef>

#include "packet/bytes.h"

namespace headrace::vnf {
namespace {

/// The input of rte_acl, in network order: its first field must have one octet, and the others must
/// form groups of four.
struct __attribute__((packed)) AclInput {
  uint8_t proto;
  uint8_t pad[3];
  uint32_t src;
  uint32_t dst;
  uint16_t src_port;
  uint16_t dst_port;
  uint32_t in_port;
};
static_assert(sizeof(AclInput) == 20);

enum Field { kProto, kSrc, kDst, kSrcPort, kDstPort, kInPort, kFields };

constexpr rte_acl_field_def field(uint8_t type, uint8_t size, uint8_t index, uint8_t group,
                                  uint32_t offset) {
  return {.type = type, .size = size, .field_index = index, .input_index = group, .offset = offset};
}

constexpr std::array<rte_acl_field_def, kFields> kLayout = {
    field(RTE_ACL_FIELD_TYPE_BITMASK, 1, kProto, 0, offsetof(AclInput, proto)),
    field(RTE_ACL_FIELD_TYPE_MASK, 4, kSrc, 1, offsetof(AclInput, src)),
    field(RTE_ACL_FIELD_TYPE_MASK, 4, kDst, 2, offsetof(AclInput, dst)),
    field(RTE_ACL_FIELD_TYPE_RANGE, 2, kSrcPort, 3, offsetof(AclInput, src_port)),
    field(RTE_ACL_FIELD_TYPE_RANGE, 2, kDstPort, 3, offsetof(AclInput, dst_port)),
    field(RTE_ACL_FIELD_TYPE_BITMASK, 4, kInPort, 4, offsetof(AclInput, in_port)),
};

RTE_ACL_RULE_DEF(CompiledRule, kFields);

CompiledRule compile(const AclRule& rule, size_t index) {
  CompiledRule compiled{};
  compiled.data.category_mask = 1;
  compiled.data.priority = static_cast<int32_t>(RTE_ACL_MAX_PRIORITY - static_cast<int>(index));
  compiled.data.userdata = static_cast<uint32_t>(index + 1);
  compiled.field[kProto].value.u8 = rule.proto.value_or(0);
  compiled.field[kProto].mask_range.u8 = rule.proto ? 0xff : 0;
  compiled.field[kSrc].value.u32 = rule.src.address;
  compiled.field[kSrc].mask_range.u32 = rule.src.length;
  compiled.field[kDst].value.u32 = rule.dst.address;
  compiled.field[kDst].mask_range.u32 = rule.dst.length;
  compiled.field[kSrcPort].value.u16 = rule.src_ports.first;
  compiled.field[kSrcPort].mask_range.u16 = rule.src_ports.last;
  compiled.field[kDstPort].value.u16 = rule.dst_ports.first;
  compiled.field[kDstPort].mask_range.u16 = rule.dst_ports.last;
  compiled.field[kInPort].value.u32 = rule.in_port.value_or(0);
  compiled.field[kInPort].mask_range.u32 = rule.in_port ? UINT32_MAX : 0;
  return compiled;
}

}  // namespace

Result<Acl> Acl::make(std::span<const AclRule> rules) {
  if (rules.empty()) return Acl(nullptr);
  static unsigned serial = 0;
  const auto name = fmt::format("acl{}", serial++);
  rte_acl_param parameters{};
  parameters.name = name.c_str();
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.rule_size = RTE_ACL_RULE_SZ(kFields);
  parameters.max_rule_num = static_cast<uint32_t>(rules.size());
  Acl acl(rte_acl_create(&parameters));
  if (acl.context_ == nullptr) {
    return fail("no memory for {} rules: {}", rules.size(), rte_strerror(rte_errno));
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    const CompiledRule compiled = compile(rules[i], i);
    const auto* rule = reinterpret_cast<const rte_acl_rule*>(&compiled);
    if (const int error = rte_acl_add_rules(acl.context_.get(), rule, 1); error != 0) {
      return fail("rule {}: {}", i, rte_strerror(-error));
    }
  }
  rte_acl_config config{};
  config.num_categories = 1;
  config.num_fields = kFields;
  std::copy(kLayout.begin(), kLayout.end(), config.defs);
  if (const int error = rte_acl_build(acl.context_.get(), &config); error != 0) {
    return fail("{} rules can't be compiled: {}; raise eal.memory_mb", rules.size(),
                rte_strerror(-error));
  }
  return acl;
}

void Acl::classify(uint16_t in_port, std::span<const FiveTuple> tuples,
                   uint32_t* results) const noexcept {
  if (context_ == nullptr) {
    std::fill_n(results, tuples.size(), kNoMatch);
    return;
  }
  std::array<AclInput, kMaxPackets> inputs;
  std::array<const uint8_t*, kMaxPackets> data;
  for (size_t i = 0; i < tuples.size(); ++i) {
    const FiveTuple& tuple = tuples[i];
    inputs[i] = {.proto = tuple.proto,
                 .pad = {},
                 .src = packet::swap32(tuple.src),
                 .dst = packet::swap32(tuple.dst),
                 .src_port = packet::swap16(tuple.src_port),
                 .dst_port = packet::swap16(tuple.dst_port),
                 .in_port = packet::swap32(in_port)};
    data[i] = reinterpret_cast<const uint8_t*>(&inputs[i]);
  }
  rte_acl_classify(context_.get(), data.data(), results, static_cast<uint32_t>(tuples.size()), 1);
}

}  // namespace headrace::vnf
