// SPDX-License-Identifier: Apache-2.0
// Ordered rules over input port and five-tuple: DPDK's rte_acl, which compiles them to tries.
#pragma once

#include <rte_acl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "vnf/net/transport.h"

namespace headrace::vnf {

struct PortRange {
  uint16_t first{0};
  uint16_t last{UINT16_MAX};
};

/// A match; unset members match every packet.
struct AclRule {
  std::optional<uint16_t> in_port;
  std::optional<uint8_t> proto;
  Ipv4Prefix src;
  Ipv4Prefix dst;
  PortRange src_ports;
  PortRange dst_ports;
};

class Acl {
 public:
  /// The result of classify() for a packet that no rule matches.
  static constexpr uint32_t kNoMatch = 0;
  static constexpr size_t kMaxPackets = 32;

  /// The first matching rule wins. Fails if memory is short or there are too many rules.
  static Result<Acl> make(std::span<const AclRule> rules);

  /// For each tuple: 1 + the index of its rule, or kNoMatch. At most kMaxPackets.
  void classify(uint16_t in_port, std::span<const FiveTuple> tuples,
                uint32_t* results) const noexcept;

 private:
  struct Free {
    void operator()(rte_acl_ctx* context) const { rte_acl_free(context); }
  };
  explicit Acl(rte_acl_ctx* context) : context_(context) {}
  std::unique_ptr<rte_acl_ctx, Free> context_;  ///< null without rules
};

}  // namespace headrace::vnf
