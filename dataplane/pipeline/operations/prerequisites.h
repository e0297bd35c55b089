// SPDX-License-Identifier: Apache-2.0
// Which fields a packet has for sure: OpenFlow's match prerequisites (section 7.2.3.8, table 12).
//
// A match's earlier fields, and then the actions of a list (push VLAN, pop MPLS, ...), say what is
// known of a packet. A field may be matched or set only where its prerequisites are known to hold.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "match/fields/fields.h"
#include "match/fields/match.h"

namespace headrace::pipeline {

/// What is known of every packet that a match selects.
struct KnownHeaders {
  bool in_port{false};
  bool vlan{false};                  ///< has a VLAN tag
  std::optional<uint16_t> eth_type;  ///< host order
  std::optional<uint8_t> ip_proto;
  std::optional<uint8_t> icmp_type;  ///< of ICMPv4 or ICMPv6

  /// Takes in one field of a match.
  void learn(const match::MatchField& field);
  /// Takes in that a field has a value.
  void learn_value(match::Field field, const std::array<uint8_t, 16>& value);
  /// What follows the Ethernet type is no longer known.
  void forget_payload();

  static KnownHeaders of(const match::Match& match);
};

/// True if `field` exists in every packet of which `known` are known.
bool prerequisites_met(match::Field field, const KnownHeaders& known);

}  // namespace headrace::pipeline
