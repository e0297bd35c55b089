// SPDX-License-Identifier: Apache-2.0
// For tests and benches: five-tuple rules as access lists, firewalls and IP chains have them, and
// packets that they match.
//
// The rules follow the model of ClassBench (Taylor and Turner, INFOCOM 2005; ToN 2007): a seed says
// how often each prefix length, protocol and class of port range (WC: any, HI: 1024 and above, LO:
// below 1024, AR: another range, EM: one port) occurs, how addresses branch from bit to bit, and
// how far source and destination agree. The three seeds have the character of its families acl, fw
// and ipc in round figures: access lists name long prefixes on both sides and no source port;
// firewalls leave one side open in a third of the rules and name port ranges; IP chains are between
// them.
//
// A range of ports becomes several matches, as controllers expand it to value and mask. Rules are
// in order of priority and no two are equal; beyond 65536 rules, neighbors share a priority.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "match/fields/fields.h"
#include "match/fields/match.h"

namespace headrace::match {

/// A value range and how often values of it occur, in percent.
struct Weighted {
  uint8_t first;
  uint8_t last;
  uint8_t percent;
};

/// In percent; what is missing to 100 is WC.
struct PortClasses {
  uint8_t hi;
  uint8_t lo;
  uint8_t ar;
  uint8_t em;
};

struct AclSeed {
  std::string_view name;
  std::vector<Weighted> source_lengths;
  std::vector<Weighted> destination_lengths;
  std::vector<std::pair<uint8_t, uint8_t>> protocols;  ///< number, percent; the rest is any
  PortClasses source_ports;
  PortClasses destination_ports;
  uint8_t one_child;   ///< percent of nodes of the address trie with one child only, down to /24
  uint8_t correlated;  ///< percent of rules whose addresses agree in their first bits
};

enum class AclFamily : uint8_t { acl, fw, ipc };

[[nodiscard]] const AclSeed& acl_seed(AclFamily family);

struct PortRange {
  uint16_t first{0};
  uint16_t last{0xffff};
  bool operator==(const PortRange&) const = default;
  [[nodiscard]] bool any() const { return first == 0 && last == 0xffff; }
};

/// An address with its prefix length; IPv4 in the first four octets. Bits beyond it are 0.
struct AclPrefix {
  std::array<uint8_t, 16> address{};
  uint8_t length{0};
  bool operator==(const AclPrefix&) const = default;
};

struct AclRule {
  bool ipv6{false};
  AclPrefix source{};
  AclPrefix destination{};
  std::optional<uint8_t> protocol{};
  PortRange source_port{};
  PortRange destination_port{};
  uint16_t priority{0};
};

/// What a packet says of a five-tuple; addresses as in AclPrefix.
struct AclPacket {
  std::array<uint8_t, 16> source;
  std::array<uint8_t, 16> destination;
  uint16_t source_port;
  uint16_t destination_port;
  uint8_t protocol;
  bool ipv6;

  /// Writes the packet's fields to a key that holds no others.
  void fill(FlowKey& key) const;
};

/// `count` different rules by descending priority.
[[nodiscard]] std::vector<AclRule> acl_rules(AclFamily family, size_t count, bool ipv6,
                                             unsigned seed);

/// The matches that together select what the rule selects; no two overlap.
[[nodiscard]] std::vector<Match> matches_of(const AclRule& rule);

/// A packet that the rule matches.
[[nodiscard]] AclPacket packet_of(const AclRule& rule, std::mt19937& random);

/// Packets that hit rules: each rule as often (`zipf` false), or by Zipf's law with exponent 1.
[[nodiscard]] std::vector<AclPacket> acl_trace(const std::vector<AclRule>& rules, size_t count,
                                               bool zipf, unsigned seed);

}  // namespace headrace::match
