// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/ipv6_fib.h"

#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>

namespace headrace::vnf {

Result<Ipv6Fib> Ipv6Fib::make(const std::vector<Ipv6FibRoute>& routes) {
  static unsigned serial = 0;  // the control thread makes them; names are unique in a process
  constexpr uint32_t kMaxIndex = 32767;  // next hops and groups, which have 15 bits
  uint32_t groups = 16;
  for (const auto& route : routes) {
    if (route.prefix.length > 24) groups += (route.prefix.length - 24U + 7U) / 8U;
    if (route.next_hop > kMaxIndex) return fail("more than {} next hops of IPv6", kMaxIndex);
  }
  if (groups > kMaxIndex) {
    return fail(
        "{} IPv6 routes need {} groups of the trie, which has {}; use fewer or shorter ones",
        routes.size(), groups, kMaxIndex);
  }
  rte_fib6_conf config{};
  config.type = RTE_FIB6_TRIE;
  config.default_nh = kNoRoute;
  config.max_routes = static_cast<int>(2 * routes.size() + 64);
  config.trie.nh_sz = RTE_FIB6_TRIE_2B;
  config.trie.num_tbl8 = groups;
  const auto name = fmt::format("fib6_{}", serial++);
  Ipv6Fib fib(rte_fib6_create(name.c_str(), SOCKET_ID_ANY, &config));
  if (fib.fib_ == nullptr) {
    return fail("no memory for {} IPv6 routes (32 MiB): {}; raise eal.memory_mb", routes.size(),
                rte_strerror(rte_errno));
  }
  for (const auto& route : routes) {
    const int error = rte_fib6_add(fib.fib_.get(), route.prefix.address.data(), route.prefix.length,
                                   route.next_hop);
    if (error != 0) {
      return fail("route {}/{}: {}", ipv6_text(route.prefix.address), route.prefix.length,
                  rte_strerror(-error));
    }
  }
  return fib;
}

}  // namespace headrace::vnf
