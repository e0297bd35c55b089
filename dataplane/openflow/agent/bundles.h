// SPDX-License-Identifier: Apache-2.0
// Bundles: messages collected under an id and applied atomically.
//
// Bundles are per connection and end with it. Messages are decoded when they are added, so that an
// invalid one is rejected at once; the LSI checks and applies all of them at commit.
//
// Source: ONF extension EXT-230 (the 1.3 form of OpenFlow 1.4's bundles).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "openflow/codec/bundle_messages.h"
#include "pipeline/control/lsi.h"

namespace headrace::openflow {

/// A failed commit: the message at fault and its error; the commit request itself fails too.
struct CommitFailure {
  Message message;
  OfError error;
};

/// Limits on the open bundles of one connection together. Decoded, a message of a simple flow takes
/// 1.2 KiB, and one of many actions eleven times its octets.
struct BundleLimits {
  size_t messages{1'000'000};  ///< the capacity of a table
  size_t octets{256 << 20};    ///< of the messages
};

/// The open bundles of one connection.
class Bundles {
 public:
  static constexpr size_t kMaxBundles = 16;
  /// Octets kept of each message, which an error quotes.
  static constexpr size_t kHead = 64;

  explicit Bundles(BundleLimits limits = {}) : limits_(limits) {}

  /// Opens, closes, commits to `lsi` or discards. A commit that fails changes nothing, removes the
  /// bundle and sets `failure`.
  OfResult<> control(const BundleControl& request, pipeline::Lsi& lsi,
                     std::vector<CommitFailure>& failure);
  /// Adds a message; opens the bundle if it does not exist. `xid` is the outer message's.
  OfResult<> add(const BundleAdd& request, uint32_t xid);

 private:
  struct Bundle {
    uint16_t flags{0};
    bool closed{false};
    std::vector<pipeline::BundleItem> items;
    std::vector<Message> heads;  ///< the first kHead octets of each message
    size_t octets{0};            ///< of all messages
  };

  OfResult<Bundle*> open(uint32_t bundle_id, uint16_t flags);
  /// Whether another message of that many octets is within the limits.
  [[nodiscard]] bool fits(size_t octets) const;

  BundleLimits limits_;
  std::unordered_map<uint32_t, Bundle> bundles_;
};

}  // namespace headrace::openflow
