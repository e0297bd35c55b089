// SPDX-License-Identifier: Apache-2.0
// Any bytes as a packet: the straight path of extraction, at every level of vector instructions
// that the processor has, and the general parser agree at every depth, and set-field leaves the
// FlowKey that a new extraction gives.
//
// The first octet chooses the field to set, the next sixteen are its value, the rest is the frame.
#include <cstdlib>

#include "match/fields/extract.h"
#include "match/fields/match.h"
#include "match/fields/set_field.h"
#include "match/fields/simd.h"
#include "packet/test_packet.h"

namespace headrace::match {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_depth(Depth depth, rte_mbuf* packet) {
  FlowKey fast;
  FlowKey general;
  packet::ParsedPacket fast_parsed;
  packet::ParsedPacket general_parsed;
  rte_mbuf* const burst[1] = {packet};
  extractor_for(depth)(std::span<rte_mbuf* const>(burst, 1), {1, 2}, &fast, &fast_parsed);
  refresh(depth, packet, general, general_parsed);
  require(std::memcmp(&fast_parsed, &general_parsed, sizeof fast_parsed) == 0);
  const size_t words = depth == Depth::l2 ? 3 : depth == Depth::full ? kFieldWords : 5;
  for (size_t w = 0; w < words; ++w) {
    if (w != 2) require(word(fast, w) == word(general, w));
  }
}

}  // namespace
}  // namespace headrace::match

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::match;
  constexpr size_t kChoice = 17;
  if (size < kChoice || size > 2048) return 0;
  headrace::packet::TestPacket packet({data + kChoice, size - kChoice});
  for (const Simd level : simd_levels()) {
    set_simd(level);
    for (const Depth depth : {Depth::l2, Depth::l3, Depth::l4, Depth::full}) {
      check_depth(depth, packet.mbuf());
    }
  }
  const auto field = static_cast<Field>(data[0] % kFieldCount);
  const SetField set = set_field_for(field);
  if (set == nullptr || field == Field::tunnel_id || field == Field::tun_src ||
      field == Field::tun_dst || field == Field::tun_ipv6_src || field == Field::tun_ipv6_dst)
    return 0;
  FlowKey values{};
  headrace::packet::ParsedPacket parsed;
  refresh(Depth::full, packet.mbuf(), values, parsed);
  uint8_t value[16];
  for (size_t i = 0; i < info(field).bytes; ++i) {
    value[i] = data[1 + i] & Match::full_mask_byte(info(field), i);
  }
  (void)set(packet.mbuf(), parsed, values, value);
  FlowKey again{};
  headrace::packet::ParsedPacket parsed_again;
  refresh(Depth::full, packet.mbuf(), again, parsed_again);
  require(std::memcmp(&values, &again, sizeof values) == 0);
  return 0;
}
