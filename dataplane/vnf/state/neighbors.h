// SPDX-License-Identifier: Apache-2.0
// The next hops of a router, and the state of their address resolution.
//
// Keyed for IPv4 by address; for IPv6 by address and port, since link-local addresses are unique
// only on their link.
//
// A neighbor is incomplete (requested by ARP or neighbor discovery), reachable (until it expires,
// then requested again), or fixed (by configuration). While it is incomplete, a few packets are
// queued (RFC 1122, 2.3.2.2 requires at least the latest). After three requests, a second apart,
// without a reply it is unreachable: the queued packets are returned to the caller, for an ICMP
// error.
//
// Thread safety: none; used by the worker only. Nothing allocates after make().
#pragma once

#include <rte_hash.h>
#include <rte_mbuf.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "vnf/net/ipv6_address.h"

namespace headrace::vnf {

/// An IPv6 address on the link of a port. A hash key, so it is aligned as the hash function reads
/// it, and has no uninitialized octets.
struct alignas(8) Ipv6OnLink {
  Ipv6Address octets{};
  uint16_t port{0};
  std::array<uint16_t, 3> zero{};
  bool operator==(const Ipv6OnLink&) const = default;
};
static_assert(sizeof(Ipv6OnLink) == 24);

template <typename Address>
struct BasicNeighbor {
  static constexpr uint8_t kQueue = 8;     ///< packets queued at most
  static constexpr uint8_t kRequests = 3;  ///< without a reply before it is unreachable

  enum class State : uint8_t { free, incomplete, reachable, fixed };
  State state{State::free};
  uint8_t requests{0};  ///< sent since the last reply
  uint8_t queued{0};
  bool pinned{false};  ///< an adjacency holds its index: it must not be removed
  uint16_t port{0};
  Address address{};
  MacAddress mac{};
  uint64_t deadline{0};  ///< TSC: of the next request, or of reachability
  std::array<rte_mbuf*, kQueue> queue{};

  [[nodiscard]] bool has_mac() const { return state >= State::reachable; }
};

template <typename Address>
class BasicNeighborTable {
 public:
  using Neighbor = BasicNeighbor<Address>;

  static constexpr uint32_t kNone = UINT32_MAX;

  /// Room for `capacity` neighbors.
  static Result<std::unique_ptr<BasicNeighborTable>> make(uint32_t capacity);
  /// Frees the queued packets.
  ~BasicNeighborTable();
  BasicNeighborTable(const BasicNeighborTable&) = delete;
  BasicNeighborTable& operator=(const BasicNeighborTable&) = delete;

  /// The index of an address, or kNone.
  [[nodiscard]] uint32_t find(const Address& address) const noexcept;
  /// The index of an address, added as incomplete if it is new; kNone if the table is full.
  uint32_t find_or_add(const Address& address, uint16_t port) noexcept;
  Neighbor& operator[](uint32_t index) noexcept { return entries_[index]; }

  /// Queues a packet. If the queue is full, the oldest packet is removed from it and returned.
  [[nodiscard]] static rte_mbuf* enqueue(Neighbor& neighbor, rte_mbuf* packet) noexcept;

  /// Indices of all neighbors in use, unordered.
  [[nodiscard]] std::span<const uint32_t> used() const noexcept { return used_; }
  /// Removes a neighbor; its queue must be empty. used() changes.
  void remove(uint32_t index) noexcept;

 private:
  struct Free {
    void operator()(rte_hash* hash) const { rte_hash_free(hash); }
  };
  explicit BasicNeighborTable(rte_hash* hash, uint32_t capacity);

  std::unique_ptr<rte_hash, Free> hash_;
  std::vector<Neighbor> entries_;  ///< by the hash's position
  std::vector<uint32_t> used_;
};

using Neighbor = BasicNeighbor<Ipv4Address>;
using NeighborTable = BasicNeighborTable<Ipv4Address>;
using Ipv6Neighbor = BasicNeighbor<Ipv6OnLink>;
using Ipv6NeighborTable = BasicNeighborTable<Ipv6OnLink>;

}  // namespace headrace::vnf
