// SPDX-License-Identifier: Apache-2.0
// Longest prefix match on IPv6 addresses: DPDK's rte_fib6 (a trie of 24 bits, then 8 bits per
// step).
#pragma once

#include <rte_fib6.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "vnf/net/ipv6_address.h"

namespace headrace::vnf {

struct Ipv6FibRoute {
  Ipv6Prefix prefix;
  uint32_t next_hop;  ///< the caller's index, at least 1
};

/// Immutable. 32 MiB, plus 512 octets for each 8 bits beyond 24 of each prefix.
class Ipv6Fib {
 public:
  /// The result of lookup() for an address that no prefix covers.
  static constexpr uint32_t kNoRoute = 0;

  /// Fails if memory is short, or if the trie can't hold the routes.
  static Result<Ipv6Fib> make(const std::vector<Ipv6FibRoute>& routes);

  /// `next_hops` must have as many elements as there are addresses.
  void lookup(std::span<Ipv6Address> addresses, uint64_t* next_hops) const noexcept {
    rte_fib6_lookup_bulk(fib_.get(), reinterpret_cast<uint8_t(*)[16]>(addresses.data()), next_hops,
                         static_cast<int>(addresses.size()));
  }

 private:
  struct Free {
    void operator()(rte_fib6* fib) const { rte_fib6_free(fib); }
  };
  explicit Ipv6Fib(rte_fib6* fib) : fib_(fib) {}
  std::unique_ptr<rte_fib6, Free> fib_;
};

}  // namespace headrace::vnf
