// SPDX-License-Identifier: Apache-2.0
// What many operations do alike: headers on the wire, ops without operands, edits packet by packet.
#pragma once

#include "match/fields/extract.h"
#include "packet/edit.h"
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/reference_packet.h"
#include "pipeline/operations/registry.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {

/// Words of the flow key that edits of a header rely on having been extracted.
inline constexpr match::WordSet kIpWord = 1u << 3;
inline constexpr match::WordSet kIpAndL4Words = 1u << 3 | 1u << 4;
inline constexpr match::WordSet kMplsWord = 1u << 7;
inline constexpr match::WordSet kPbbWord = 1u << 9;

template <match::WordSet words>
match::WordSet constant_words(const Op&) {
  return words;
}

/// Headrace's own experimenter id: from the range of locally administered OUIs.
inline constexpr uint32_t kHeadraceExperimenter = 0x00524143;
inline constexpr uint32_t kNiciraExperimenter = 0x00002320;
/// NXAST_NOTE.
inline constexpr uint16_t kNoteSubtype = 8;

/// Writes ofp_action_header.
inline void encode_head(wire::Writer& writer, uint16_t type, uint16_t length) {
  writer.u16(type);
  writer.u16(length);
}
/// Writes an action of 8 octets without arguments.
template <uint16_t type>
void encode_bare(wire::Writer& writer, const Action&) {
  encode_head(writer, type, 8);
  writer.zeros(4);
}
template <typename A>
OfResult<Action> decode_bare(wire::Reader&, ActionContext) {
  return Action(A{});
}
template <typename A>
OfResult<Op> compile_bare(const Action&, ActionContext, Resolver&) {
  return make_op(A::operation());
}

/// Brings a packet's flow key up to date after its headers moved, if something reads it later.
inline void refresh_key(const Execution& x, const Op& op, PacketView view) {
  if (op.refresh_key) {
    match::refresh_values(x.burst.parse_depth, view.packet, *view.key, *view.parsed);
  }
}

/// Writes an action of 8 octets whose argument is an Ethernet type.
template <uint16_t type, typename A>
void encode_ethertype(wire::Writer& writer, const Action& action) {
  encode_head(writer, type, 8);
  writer.u16(action.arguments<A>().ethertype);
  writer.zeros(2);
}

/// run() of a push of `octets` of headers: `push(view, op, depth)` returns false for a packet that
/// can't take them, or that has no headroom for them.
template <bool push(PacketView, const Op&, packet::Depth), uint16_t octets>
void run_push(Execution& x, OpBurst& burst) {
  edit_each(x, burst, [&](size_t k) {
    const PacketView view = burst.view(k);
    if (!push(view, *burst.ops[k], x.burst.parse_depth)) [[unlikely]] {
      return rte_pktmbuf_headroom(view.packet) < octets ? DropReason::no_headroom
                                                        : DropReason::bad_action;
    }
    refresh_key(x, *burst.ops[k], view);
    return DropReason::none;
  });
}

/// run() of a pop: `pop(view, op, depth)` returns false for a packet that lacks the header.
template <bool pop(PacketView, const Op&, packet::Depth)>
void run_pop(Execution& x, OpBurst& burst) {
  edit_each(x, burst, [&](size_t k) {
    const PacketView view = burst.view(k);
    if (!pop(view, *burst.ops[k], x.burst.parse_depth)) [[unlikely]] {
      return DropReason::bad_action;
    }
    refresh_key(x, *burst.ops[k], view);
    return DropReason::none;
  });
}

/// run() of a TTL's decrement: packets that have none left go to the controller.
template <packet::TtlResult decrement(rte_mbuf*, const packet::ParsedPacket&)>
void run_dec_ttl(Execution& x, OpBurst& burst) {
  size_t kept = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    const PacketView view = burst.view(k);
    if (decrement(view.packet, *view.parsed) == packet::TtlResult::expired) [[unlikely]] {
      expire_ttl(x, view, *burst.rule[k]);
      continue;
    }
    if (kept != k) burst.keep(kept, k);
    ++kept;
  }
  burst.count = kept;
}
template <packet::TtlResult decrement(rte_mbuf*, const packet::ParsedPacket&)>
bool reference_dec_ttl(ReferencePacket& packet, const Action&) {
  if (decrement(packet.mbuf, packet.parsed) == packet::TtlResult::expired) {
    packet.sw.punt(packet, PuntReason::invalid_ttl);
    return false;
  }
  packet.refresh();
  return true;
}

/// run() of an edit that the packet may refuse: `edit(view, op)` returns false for a packet that
/// lacks the header.
template <bool edit(PacketView, const Op&)>
void run_edit(Execution& x, OpBurst& burst) {
  edit_each(x, burst, [&](size_t k) {
    return edit(burst.view(k), *burst.ops[k]) ? DropReason::none : DropReason::bad_action;
  });
}

}  // namespace headrace::pipeline
