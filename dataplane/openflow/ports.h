// SPDX-License-Identifier: Apache-2.0
// OpenFlow's view of a port: description, counters, port-status, port-mod.
//
// Source: OpenFlow 1.3.5, sections 7.2.1, 7.3.4.3, 7.3.5.6, 7.3.5.7, 7.4.3.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "openflow/errors.h"
#include "openflow/protocol.h"
#include "openflow/wire.h"

namespace headrace::openflow {

using pipeline::PortNo;
using MacAddress = std::array<uint8_t, 6>;

/// ofp_port.
struct PortDesc {
  PortNo port_no{0};
  MacAddress hw_addr{};
  std::string name;    ///< at most 15 octets reach the wire
  uint32_t config{0};  ///< port_config bits, set by port-mod
  uint32_t state{0};   ///< port_state bits
  uint32_t curr{0};    ///< ofp_port_features
  uint32_t advertised{0};
  uint32_t supported{0};
  uint32_t peer{0};
  uint32_t curr_speed{0};  ///< kbit/s
  uint32_t max_speed{0};   ///< kbit/s
  bool operator==(const PortDesc&) const = default;
};

/// The counters of ofp_port_stats. What a device cannot count is UINT64_MAX, as the
/// specification wants it.
struct PortCounters {
  uint64_t rx_packets{0};
  uint64_t tx_packets{0};
  uint64_t rx_bytes{0};
  uint64_t tx_bytes{0};
  uint64_t rx_dropped{0};
  uint64_t tx_dropped{0};
  uint64_t rx_errors{0};
  uint64_t tx_errors{0};
  uint64_t rx_frame_err{UINT64_MAX};
  uint64_t rx_over_err{UINT64_MAX};
  uint64_t rx_crc_err{UINT64_MAX};
  uint64_t collisions{UINT64_MAX};
  uint64_t duration_ns{0};  ///< since the port was added
};

/// ofp_port_mod.
struct PortMod {
  PortNo port_no{0};
  MacAddress hw_addr{};
  uint32_t config{0};
  uint32_t mask{0};
  uint32_t advertise{0};
};

/// Appends an ofp_port.
void encode_port(Writer& writer, const PortDesc& port);
/// Appends an ofp_port_stats.
void encode_port_stats(Writer& writer, PortNo port_no, const PortCounters& counters);
/// A whole OFPT_PORT_STATUS.
Message encode_port_status(PortReason reason, const PortDesc& port);
/// The body (after ofp_header) of OFPT_PORT_MOD.
OfResult<PortMod> decode_port_mod(Bytes body);

}  // namespace headrace::openflow
