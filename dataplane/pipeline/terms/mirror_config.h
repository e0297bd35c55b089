// SPDX-License-Identifier: Apache-2.0
// A mirror of packets as its owner asks for it: Open vSwitch's table Mirror, by port numbers.
//
// A packet is selected if it comes in or leaves by a selected port, in a selected VLAN. Each mirror
// gets one copy of what is selected: as it came in, else as it left. Copies go to a port that then
// serves nothing else, or (RSPAN) to all ports that carry a VLAN, in which they are put.
//
// Source: ovs-vswitchd.conf.db(5), "Mirror TABLE".
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

/// Mirrors of one LSI; as in Open vSwitch.
inline constexpr size_t kMaxMirrors = 32;

struct MirrorConfig {
  using VlanSet = std::bitset<4096>;

  std::string id;      ///< what its statistics go by; unique in the LSI
  std::string name{};  ///< for people
  bool select_all{false};
  std::vector<PortNo> select_received;  ///< ports; those that are not there select nothing
  std::vector<PortNo> select_sent;
  std::optional<VlanSet> select_vlans;   ///< none: any
  std::optional<PortNo> output_port;     ///< one of these two
  std::optional<uint16_t> output_vlan;   ///< without an output port
  std::optional<uint32_t> max_length{};  ///< octets of a copy's frame, from 14

  bool operator==(const MirrorConfig&) const = default;
};

/// What a mirror has sent.
struct MirrorStats {
  std::string name{};
  uint64_t packets{0};
  uint64_t bytes{0};
};

}  // namespace headrace::pipeline
