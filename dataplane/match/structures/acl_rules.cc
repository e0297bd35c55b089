// SPDX-License-Identifier: Apache-2.0
#include "match/structures/acl_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_set>

#include "packet/bytes.h"

namespace headrace::match {
namespace {

using Random = std::mt19937;

constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr size_t kPortPool = 64;   ///< ports that rules name exactly
constexpr size_t kRangePool = 24;  ///< other ranges that rules name

uint32_t below(Random& random, uint32_t limit) {
  return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random);
}

uint64_t mixed(uint64_t value) {
  value = (value ^ value >> 31) * 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 29) * 0xbf58476d1ce4e5b9u;
  return value ^ value >> 32;
}

bool bit(const std::array<uint8_t, 16>& address, size_t at) {
  return (address[at / 8] >> (7 - at % 8) & 1) != 0;
}

void set_bit(std::array<uint8_t, 16>& address, size_t at) {
  address[at / 8] = static_cast<uint8_t>(address[at / 8] | 0x80u >> at % 8);
}

uint8_t length_of(const std::vector<Weighted>& lengths, Random& random) {
  uint32_t dice = below(random, 100);
  for (const Weighted& each : lengths) {
    if (dice < each.percent) {
      return static_cast<uint8_t>(each.first + below(random, each.last - each.first + 1u));
    }
    dice -= each.percent;
  }
  return lengths.back().last;
}

/// The length of an IPv6 prefix that plays the part of one of IPv4: sites for networks, subnets
/// and hosts for hosts.
uint8_t ipv6_length(uint8_t length, Random& random) {
  if (length == 32) return below(random, 2) == 0 ? 128 : 64;
  return length <= 24 ? static_cast<uint8_t>(length * 2) : static_cast<uint8_t>(length * 2 + 1);
}

/// Makes the rules of one seed.
class Maker {
 public:
  Maker(const AclSeed& seed, bool ipv6, unsigned number)
      : seed_(seed), ipv6_(ipv6), salt_(mixed(number)), random_(number) {
    static constexpr uint16_t kWellKnown[] = {80, 443, 53, 22, 25, 21, 23, 110, 161, 123, 1521};
    ports_.assign(std::begin(kWellKnown), std::end(kWellKnown));
    while (ports_.size() < kPortPool) {
      ports_.push_back(static_cast<uint16_t>(1 + below(random_, below(random_, 2) ? 65535 : 1023)));
    }
    for (size_t i = 0; i < kRangePool; ++i) ranges_.push_back(other_range());
  }

  AclRule make() {
    AclRule rule;
    rule.ipv6 = ipv6_;
    rule.protocol = protocol();
    rule.source = prefix(seed_.source_lengths, nullptr);
    rule.destination = prefix(seed_.destination_lengths, &rule.source);
    // Ports have the protocol as a prerequisite.
    if (rule.protocol == kTcp || rule.protocol == kUdp) {
      rule.source_port = ports(seed_.source_ports);
      rule.destination_port = ports(seed_.destination_ports);
    }
    return rule;
  }

 private:
  std::optional<uint8_t> protocol() {
    uint32_t dice = below(random_, 100);
    for (const auto& [number, percent] : seed_.protocols) {
      if (dice < percent) return ipv6_ && number == 1 ? uint8_t{58} : number;
      dice -= percent;
    }
    return std::nullopt;
  }

  PortRange ports(const PortClasses& classes) {
    uint32_t dice = below(random_, 100);
    if (dice < classes.hi) return {1024, 65535};
    dice -= classes.hi;
    if (dice < classes.lo) return {0, 1023};
    dice -= classes.lo;
    if (dice < classes.ar) return ranges_[below(random_, kRangePool)];
    dice -= classes.ar;
    if (dice < classes.em) {
      // Some ports are named far more often than others.
      const uint16_t port = ports_[below(random_, 1 + below(random_, kPortPool))];
      return {port, port};
    }
    return {};
  }

  PortRange other_range() {
    const uint32_t first = 1 + below(random_, 60000);
    const uint32_t size = 2u << below(random_, 11);
    if (below(random_, 2) == 0) {  // a block of ports
      const uint32_t start = first & ~(size - 1);
      return {static_cast<uint16_t>(start), static_cast<uint16_t>(start + size - 1)};
    }
    const uint32_t last = std::min(65535u, first + below(random_, size) + 1);
    return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
  }

  /// Walks down the address trie. Its shape is a function of the path, so that prefixes of all
  /// lengths nest.
  AclPrefix prefix(const std::vector<Weighted>& lengths, const AclPrefix* other) {
    AclPrefix made;
    const uint8_t length = length_of(lengths, random_);
    made.length = ipv6_ ? ipv6_length(length, random_) : length;
    const size_t scale = ipv6_ ? 2 : 1;
    bool together = other != nullptr && below(random_, 100) < seed_.correlated;
    uint64_t path = salt_;
    for (size_t at = 0; at < made.length; ++at) {
      const uint64_t shape = mixed(path + at);
      const bool branches = at >= 24 * scale || shape % 100 >= seed_.one_child;
      // The heavier child gets from a half to nearly all of what comes by.
      const uint32_t heavier = 50 + static_cast<uint32_t>(shape >> 8) % 45;
      const bool heavy = (shape >> 40 & 1) != 0;
      bool one = branches && below(random_, 100) >= heavier ? !heavy : heavy;
      together = together && at < other->length && at < 16 * scale;
      if (together) one = bit(other->address, at);
      if (one) set_bit(made.address, at);
      path = mixed(path ^ (one ? 0x5555 : 0xaaaa) ^ at << 20);
    }
    return made;
  }

  const AclSeed& seed_;
  bool ipv6_;
  uint64_t salt_;
  Random random_;
  std::vector<uint16_t> ports_;
  std::vector<PortRange> ranges_;
};

/// Everything of a rule but its priority, as octets.
std::string identity_of(const AclRule& rule) {
  std::string octets;
  const auto add = [&octets](const auto& value) {
    octets.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(rule.source.address);
  add(rule.source.length);
  add(rule.destination.address);
  add(rule.destination.length);
  add(static_cast<uint16_t>(rule.protocol.has_value() ? *rule.protocol : 256));
  for (const PortRange& each : {rule.source_port, rule.destination_port}) {
    add(each.first);
    add(each.last);
  }
  return octets;
}

/// A range of ports as blocks of a power of two.
struct PortBlock {
  uint16_t value;
  uint16_t mask;
};

std::vector<PortBlock> blocks_of(const PortRange& range) {
  std::vector<PortBlock> blocks;
  for (uint32_t at = range.first; at <= range.last;) {
    uint32_t size = at == 0 ? 0x10000u : at & (~at + 1);
    while (at + size - 1 > range.last) size /= 2;
    blocks.push_back({static_cast<uint16_t>(at), static_cast<uint16_t>(~(size - 1))});
    at += size;
  }
  return blocks;
}

void add_prefix(Match& match, Field field, const AclPrefix& prefix) {
  if (prefix.length == 0) return;
  std::array<uint8_t, 16> mask{};
  for (size_t at = 0; at < prefix.length; ++at) set_bit(mask, at);
  match.add(field, prefix.address.data(), mask.data());
}

void add_port(Match& match, Field field, const PortBlock& block) {
  if (block.mask == 0) return;
  uint8_t value[2];
  uint8_t mask[2];
  packet::store_be16(value, block.value);
  packet::store_be16(mask, block.mask);
  match.add(field, value, block.mask == 0xffff ? nullptr : mask);
}

std::array<uint8_t, 16> address_in(const AclPrefix& prefix, size_t bits, Random& random) {
  std::array<uint8_t, 16> address = prefix.address;
  for (size_t at = prefix.length; at < bits; ++at) {
    if (below(random, 2) != 0) set_bit(address, at);
  }
  return address;
}

}  // namespace

const AclSeed& acl_seed(AclFamily family) {
  static const AclSeed seeds[] = {
      {"acl",
       {{0, 0, 4}, {8, 16, 3}, {17, 23, 12}, {24, 24, 16}, {25, 31, 25}, {32, 32, 40}},
       {{0, 0, 2}, {8, 16, 3}, {17, 23, 10}, {24, 24, 20}, {25, 31, 20}, {32, 32, 45}},
       {{kTcp, 78}, {kUdp, 12}, {1, 3}},
       {0, 0, 0, 0},
       {5, 1, 14, 52},
       60,
       40},
      {"fw",
       {{0, 0, 38}, {8, 16, 8}, {17, 23, 5}, {24, 24, 9}, {25, 31, 7}, {32, 32, 33}},
       {{0, 0, 33}, {8, 16, 7}, {17, 23, 6}, {24, 24, 10}, {25, 31, 8}, {32, 32, 36}},
       {{kTcp, 56}, {kUdp, 26}, {1, 7}},
       {12, 1, 3, 9},
       {14, 2, 12, 46},
       65,
       25},
      {"ipc",
       {{0, 0, 12}, {8, 16, 8}, {17, 23, 12}, {24, 24, 14}, {25, 31, 16}, {32, 32, 38}},
       {{0, 0, 10}, {8, 16, 7}, {17, 23, 12}, {24, 24, 16}, {25, 31, 15}, {32, 32, 40}},
       {{kTcp, 52}, {kUdp, 28}, {1, 5}},
       {8, 1, 5, 22},
       {12, 1, 12, 38},
       60,
       35},
  };
  return seeds[static_cast<size_t>(family)];
}

void AclPacket::fill(FlowKey& key) const {
  key.eth_type = packet::swap16(ipv6 ? 0x86dd : 0x0800);
  key.ip_proto = protocol;
  if (protocol == kTcp || protocol == kUdp) {
    key.l4_src = packet::swap16(source_port);
    key.l4_dst = packet::swap16(destination_port);
  } else {
    key.l4_src = 0;
    key.l4_dst = 0;
  }
  if (ipv6) {
    std::memcpy(key.ipv6_src, source.data(), 16);
    std::memcpy(key.ipv6_dst, destination.data(), 16);
  } else {
    std::memcpy(&key.ipv4_src, source.data(), 4);
    std::memcpy(&key.ipv4_dst, destination.data(), 4);
  }
}

std::vector<AclRule> acl_rules(AclFamily family, size_t count, bool ipv6, unsigned seed) {
  Maker maker(acl_seed(family), ipv6, seed);
  std::unordered_set<std::string> known;
  std::vector<AclRule> rules;
  while (rules.size() < count) {
    AclRule rule = maker.make();
    if (known.insert(identity_of(rule)).second) rules.push_back(rule);
  }
  // More special rules come first, as who writes them takes care of; the rest is chance.
  Random random(seed + 1);
  std::vector<std::pair<uint32_t, size_t>> order;
  for (size_t i = 0; i < rules.size(); ++i) {
    const uint32_t bits = rules[i].source.length + rules[i].destination.length;
    order.emplace_back(bits * (ipv6 ? 1u : 4u) + below(random, 128), i);
  }
  std::sort(order.rbegin(), order.rend());
  std::vector<AclRule> sorted;
  for (const auto& [weight, i] : order) {
    sorted.push_back(rules[i]);
    sorted.back().priority = static_cast<uint16_t>(
        count <= 65000 ? count - sorted.size() + 1 : 65535 - sorted.size() * 65534 / count);
  }
  return sorted;
}

std::vector<Match> matches_of(const AclRule& rule) {
  std::vector<Match> matches;
  const bool udp = rule.protocol == kUdp;
  for (const PortBlock& source : blocks_of(rule.source_port)) {
    for (const PortBlock& destination : blocks_of(rule.destination_port)) {
      Match match;
      uint8_t type[2];
      packet::store_be16(type, rule.ipv6 ? 0x86dd : 0x0800);
      match.add(Field::eth_type, type);
      if (rule.protocol.has_value()) match.add(Field::ip_proto, &*rule.protocol);
      add_prefix(match, rule.ipv6 ? Field::ipv6_src : Field::ipv4_src, rule.source);
      add_prefix(match, rule.ipv6 ? Field::ipv6_dst : Field::ipv4_dst, rule.destination);
      add_port(match, udp ? Field::udp_src : Field::tcp_src, source);
      add_port(match, udp ? Field::udp_dst : Field::tcp_dst, destination);
      matches.push_back(std::move(match));
    }
  }
  return matches;
}

AclPacket packet_of(const AclRule& rule, std::mt19937& random) {
  AclPacket packet{};
  const size_t bits = rule.ipv6 ? 128 : 32;
  packet.ipv6 = rule.ipv6;
  packet.source = address_in(rule.source, bits, random);
  packet.destination = address_in(rule.destination, bits, random);
  packet.protocol = rule.protocol.value_or(below(random, 3) == 0 ? kUdp : kTcp);
  const auto port_in = [&random](const PortRange& range) {
    return static_cast<uint16_t>(range.first + below(random, range.last - range.first + 1u));
  };
  packet.source_port = port_in(rule.source_port);
  packet.destination_port = port_in(rule.destination_port);
  return packet;
}

std::vector<AclPacket> acl_trace(const std::vector<AclRule>& rules, size_t count, bool zipf,
                                 unsigned seed) {
  Random random(seed);
  std::vector<size_t> order(rules.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<double> reached;  // up to which share rules are hit, by rank
  double sum = 0;
  for (size_t rank = 1; rank <= rules.size(); ++rank) {
    reached.push_back(sum += zipf ? 1.0 / static_cast<double>(rank) : 1.0);
  }
  std::uniform_real_distribution<double> share(0, sum);
  std::vector<AclPacket> trace;
  trace.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto at = std::lower_bound(reached.begin(), reached.end(), share(random));
    const auto rank = std::min(static_cast<size_t>(at - reached.begin()), rules.size() - 1);
    trace.push_back(packet_of(rules[order[rank]], random));
  }
  return trace;
}

}  // namespace headrace::match
