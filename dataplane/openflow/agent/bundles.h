// SPDX-License-Identifier: Apache-2.0
// Bundles: messages collected under an id and applied at once, all or none.
//
// A connection's bundles are its own and go with it. What a message asks is decoded when it is
// added, so that a bad one is refused at once; the LSI checks and applies all at commit.
//
// Source: ONF extension EXT-230 (the 1.3 form of OpenFlow 1.4's bundles).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "openflow/codec/bundle_messages.h"
#include "pipeline/control/lsi.h"

namespace headrace::openflow {

/// A commit that failed: the message at fault and its error; the request itself fails too.
struct CommitFailure {
  Message message;
  OfError error;
};

/// What the open bundles of one connection may hold together. Decoded, a message of a simple flow
/// takes 1.2 KiB, and one of many actions eleven times its octets.
struct BundleLimits {
  size_t messages{1'000'000};  ///< as many as a table has room for
  size_t octets{256 << 20};    ///< of the messages
};

/// The open bundles of one connection.
class Bundles {
 public:
  static constexpr size_t kMaxBundles = 16;
  /// Octets kept of each message, for an error to quote.
  static constexpr size_t kHead = 64;

  explicit Bundles(BundleLimits limits = {}) : limits_(limits) {}

  /// Opens, closes, commits to `lsi` or discards. A commit that fails changes nothing, forgets the
  /// bundle and fills `failure`.
  OfResult<> control(const BundleControl& request, pipeline::Lsi& lsi,
                     std::vector<CommitFailure>& failure);
  /// Adds a message; opens the bundle if it is not there. `xid` is the outer message's.
  OfResult<> add(const BundleAdd& request, uint32_t xid);

 private:
  struct Bundle {
    uint16_t flags{0};
    bool closed{false};
    std::vector<pipeline::BundleItem> items;
    std::vector<Message> heads;  ///< of each message what an error quotes
    size_t octets{0};            ///< of all messages
  };

  OfResult<Bundle*> open(uint32_t bundle_id, uint16_t flags);
  /// Whether one more message of that many octets is within the limits.
  [[nodiscard]] bool has_room_for(size_t octets) const;

  BundleLimits limits_;
  std::unordered_map<uint32_t, Bundle> bundles_;
};

}  // namespace headrace::openflow
