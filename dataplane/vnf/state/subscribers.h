// SPDX-License-Identifier: Apache-2.0
// The subscribers of an access network by their two VLAN tags.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "vnf/net/address.h"

namespace headrace::vnf {

struct Subscriber {
  Ipv4Address address{0};
  uint16_t s_vid{0};
  uint16_t c_vid{0};
  bool has_mac{false};
  MacAddress mac{};  ///< learnt from what it sends
};

/// Two-level look-up by tags: a table by S-VID of tables by C-VID.
class SubscriberTable {
 public:
  static constexpr uint16_t kVids = 4096;

  SubscriberTable() : by_s_vid_(kVids) {}

  /// False if these tags have a subscriber already.
  bool add(const Subscriber& subscriber) {
    auto& by_c_vid = by_s_vid_[subscriber.s_vid];
    if (!by_c_vid) by_c_vid = std::make_unique<std::array<uint32_t, kVids>>();
    uint32_t& place = (*by_c_vid)[subscriber.c_vid];
    if (place != 0) return false;
    all_.push_back(subscriber);
    place = static_cast<uint32_t>(all_.size());
    return true;
  }
  /// Null if no subscriber has these tags. Only the low 12 bits count.
  [[nodiscard]] Subscriber* find(uint32_t s_vid, uint32_t c_vid) noexcept {
    const auto& by_c_vid = by_s_vid_[s_vid & (kVids - 1)];
    const uint32_t place = by_c_vid ? (*by_c_vid)[c_vid & (kVids - 1)] : 0;
    return place == 0 ? nullptr : &all_[place - 1];
  }
  [[nodiscard]] std::vector<Subscriber>& all() noexcept { return all_; }

 private:
  std::vector<std::unique_ptr<std::array<uint32_t, kVids>>> by_s_vid_;  ///< 1 + place, 0 = none
  std::vector<Subscriber> all_;
};

}  // namespace headrace::vnf
