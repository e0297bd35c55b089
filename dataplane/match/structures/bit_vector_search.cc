// SPDX-License-Identifier: Apache-2.0
#include "match/structures/bit_vector_search.h"

#include "packet/bytes.h"

namespace headrace::match {
namespace {

struct Portable {
  static uint32_t entry(const uint32_t* entries, size_t at) {
    return __atomic_load_n(&entries[at], __ATOMIC_ACQUIRE);
  }
  static uint32_t below(const BitVectorView& view, uint32_t entry_of, uint32_t octet) {
    if ((entry_of & PrefixClasses::kNode) == 0) return entry_of;
    return entry(view.nodes[entry_of & ~PrefixClasses::kNode].data(), octet);
  }

  static void classify(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                       size_t count, Classes& classes) {
    for (size_t k = 0; k < count; ++k) {
      const FlowKey& packet = burst[slots[k]];
      for (const VectorField f : {kSource, kDestination}) {
        const uint32_t address = packet::swap32(f == kSource ? packet.ipv4_src : packet.ipv4_dst);
        const uint32_t at_16 = entry(view.fields[f].root, address >> 16);
        const uint32_t at_24 = below(view, at_16, address >> 8 & 0xff);
        classes.of[f][k] = below(view, at_24, address & 0xff);
      }
      for (const VectorField f : {kSourcePort, kDestinationPort}) {
        const uint32_t port = packet::swap16(f == kSourcePort ? packet.l4_src : packet.l4_dst);
        classes.of[f][k] = below(view, entry(view.fields[f].root, port >> 8), port & 0xff);
      }
      classes.of[kProtocol][k] = entry(view.fields[kProtocol].root, packet.ip_proto);
    }
  }

  static uint32_t intersect(const std::array<const BitBlock*, kVectorFields>& vectors,
                            BitBlock& common) {
    uint32_t words = 0;
    for (size_t w = 0; w < BitBlock::kWords; ++w) {
      uint64_t bits = ~uint64_t{0};
      for (const BitBlock* each : vectors) {
        bits &= __atomic_load_n(&each->words[w], __ATOMIC_RELAXED);
      }
      common.words[w] = bits;
      words |= uint32_t{bits != 0} << w;
    }
    return words;
  }

  static uint32_t equal_ports(const RuleGroup& group, uint32_t ports) {
    uint32_t equal = 0;
    for (size_t i = 0; i < RuleGroup::kRules; ++i) {
      equal |= uint32_t{(ports & group.port_masks[i]) == group.ports[i]} << i;
    }
    return equal;
  }
};

}  // namespace

void search_vectors(const BitVectorView& view, const FlowKey* burst, const uint8_t* slots,
                    size_t count, Ranked* best) noexcept {
  search_vectors_by<Portable>(view, burst, slots, count, best);
}

}  // namespace headrace::match
