// SPDX-License-Identifier: Apache-2.0
// Longest prefix match on IPv4 addresses: DPDK's rte_fib (DIR-24-8).
#pragma once

#include <rte_fib.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "vnf/net/address.h"

namespace headrace::vnf {

struct Ipv4FibRoute {
  Ipv4Prefix prefix;
  uint32_t next_hop;  ///< the caller's index, at least 1
};

/// Immutable. 16 MiB for up to 127 next hops and as many /24 that contain longer prefixes; 32 MiB
/// for up to 32767; 64 MiB beyond.
class Ipv4Fib {
 public:
  /// The result of lookup() for an address that no prefix covers.
  static constexpr uint32_t kNoRoute = 0;

  /// Fails if memory is short.
  static Result<Ipv4Fib> make(const std::vector<Ipv4FibRoute>& routes);

  /// Addresses in host order; `next_hops` must have as many elements.
  void lookup(std::span<uint32_t> addresses, uint64_t* next_hops) const noexcept {
    rte_fib_lookup_bulk(fib_.get(), addresses.data(), next_hops,
                        static_cast<int>(addresses.size()));
  }

 private:
  struct Free {
    void operator()(rte_fib* fib) const { rte_fib_free(fib); }
  };
  explicit Ipv4Fib(rte_fib* fib) : fib_(fib) {}
  std::unique_ptr<rte_fib, Free> fib_;
};

}  // namespace headrace::vnf
