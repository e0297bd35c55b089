// SPDX-License-Identifier: Apache-2.0
// The users of a base station and their bearers: one GTP-U tunnel each way per user.
//
// Users come in blocks with consecutive addresses and TEIDs, so a look-up searches the few blocks
// and then indexes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "vnf/net/address.h"

namespace headrace::vnf {

struct Bearer {
  Ipv4Address address{0};
  uint32_t uplink_teid{0};    ///< the gateway's
  uint32_t downlink_teid{0};  ///< ours
  bool has_mac{false};
  MacAddress mac{};  ///< learnt from what the user sends
};

class BearerTable {
 public:
  struct Block {
    Ipv4Address address;  ///< of the first user
    uint32_t uplink_teid;
    uint32_t downlink_teid;
    uint32_t count;
  };

  /// False, and no effect, if an address or a downlink TEID is in another block.
  bool add(const Block& block) {
    const bool clash = std::any_of(blocks_.begin(), blocks_.end(), [&](const Placed& other) {
      return overlap(block.address, other.block.address, block.count, other.block.count) ||
             overlap(block.downlink_teid, other.block.downlink_teid, block.count,
                     other.block.count);
    });
    if (clash) return false;
    blocks_.push_back({block, bearers_.size()});
    for (uint32_t i = 0; i < block.count; ++i) {
      bearers_.push_back({.address = block.address + i,
                          .uplink_teid = block.uplink_teid + i,
                          .downlink_teid = block.downlink_teid + i});
    }
    return true;
  }
  /// Null for an unknown address.
  [[nodiscard]] Bearer* by_address(Ipv4Address address) noexcept {
    for (const Placed& placed : blocks_) {
      const uint32_t offset = address - placed.block.address;
      if (offset < placed.block.count) return &bearers_[placed.first + offset];
    }
    return nullptr;
  }
  /// Null for an unknown downlink tunnel.
  [[nodiscard]] Bearer* by_downlink_teid(uint32_t teid) noexcept {
    for (const Placed& placed : blocks_) {
      const uint32_t offset = teid - placed.block.downlink_teid;
      if (offset < placed.block.count) return &bearers_[placed.first + offset];
    }
    return nullptr;
  }
  [[nodiscard]] std::vector<Bearer>& all() noexcept { return bearers_; }

 private:
  struct Placed {
    Block block;
    size_t first;  ///< index of its first user in bearers_
  };
  static bool overlap(uint32_t a, uint32_t b, uint32_t a_count, uint32_t b_count) {
    return a - b < b_count || b - a < a_count;
  }

  std::vector<Placed> blocks_;
  std::vector<Bearer> bearers_;
};

}  // namespace headrace::vnf
