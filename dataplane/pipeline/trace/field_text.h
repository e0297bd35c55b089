// SPDX-License-Identifier: Apache-2.0
// Match fields as text, as ovs-ofctl spells them: names, values, whole matches.
//
// Source: Open vSwitch, ovs-fields(7) and ovs-ofctl(8), flow syntax.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "match/fields/match.h"
#include "packet/parse.h"

struct rte_mbuf;

namespace headrace::pipeline {

/// The name that ovs-ofctl dump-flows uses.
[[nodiscard]] std::string_view field_name(match::Field field);
/// `name=value`, with `/mask` unless it covers the field. Both as OXM carries them.
[[nodiscard]] std::string format_field(match::Field field, const uint8_t* value,
                                       const uint8_t* mask);
/// The value alone.
[[nodiscard]] std::string format_value(match::Field field, const uint8_t* value);
/// A rule's match: `ip,nw_dst=10.0.0.0/8`; empty if it matches all.
[[nodiscard]] std::string format_match(const match::Match& match);
/// All that is known of a packet, in the order of ovs-appctl ofproto/trace.
[[nodiscard]] std::string format_packet(const match::FlowKey& key,
                                        const packet::ParsedPacket& parsed, const rte_mbuf* packet);

}  // namespace headrace::pipeline
