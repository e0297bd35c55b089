// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/ipv4_fib.h"

#include <rte_errno.h>
#include <rte_memory.h>

#include <algorithm>
#include <set>

namespace headrace::vnf {

Result<Ipv4Fib> Ipv4Fib::make(const std::vector<Ipv4FibRoute>& routes) {
  static unsigned serial = 0;  // the control thread makes them; names are unique in a process
  std::set<uint32_t> long_groups;
  uint32_t most = 1;
  for (const auto& route : routes) {
    most = std::max(most, route.next_hop);
    if (route.prefix.length > 24) long_groups.insert(route.prefix.address >> 8);
  }
  const auto groups = static_cast<uint32_t>(long_groups.size() + 1);
  const uint32_t needed = std::max(most, groups);
  rte_fib_conf config{};
  config.type = RTE_FIB_DIR24_8;
  config.default_nh = kNoRoute;
  // DIR-24-8 splits prefixes internally, so its rule table needs spare entries.
  config.max_routes = static_cast<int>(2 * routes.size() + 64);
  config.dir24_8.nh_sz = needed <= 127     ? RTE_FIB_DIR24_8_1B
                         : needed <= 32767 ? RTE_FIB_DIR24_8_2B
                                           : RTE_FIB_DIR24_8_4B;
  config.dir24_8.num_tbl8 = groups;
  const auto name = fmt::format("fib{}", serial++);
  Ipv4Fib fib(rte_fib_create(name.c_str(), SOCKET_ID_ANY, &config));
  if (fib.fib_ == nullptr) {
    return fail("no memory for {} routes ({} MiB): {}; raise eal.memory_mb", routes.size(),
                16U << config.dir24_8.nh_sz, rte_strerror(rte_errno));
  }
  for (const auto& route : routes) {
    const int error =
        rte_fib_add(fib.fib_.get(), route.prefix.address, route.prefix.length, route.next_hop);
    if (error != 0) {
      return fail("route {}/{}: {}", ipv4_text(route.prefix.address), route.prefix.length,
                  rte_strerror(-error));
    }
  }
  return fib;
}

}  // namespace headrace::vnf
