// SPDX-License-Identifier: Apache-2.0
// OpenFlow 1.3's numbers: message types, multipart types, reasons, flags.
//
// Source: OpenFlow Switch Specification 1.3.5, section 7 (header openflow.h), ONF extension
// EXT-230 (bundles).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::openflow {

inline constexpr uint8_t kVersion = 0x04;  ///< OpenFlow 1.3, the only supported version
inline constexpr size_t kHeaderSize = 8;
inline constexpr size_t kMaxMessage = 65535;  ///< ofp_header.length has 16 bits
inline constexpr uint16_t kDefaultPort = 6653;
inline constexpr uint32_t kOnfExperimenter = 0x4f4e4600;
inline constexpr uint32_t kNiciraExperimenter = 0x00002320;

/// An encoded message, header included.
using Message = std::vector<uint8_t>;

/// ofp_type (section 7.1).
enum class Type : uint8_t {
  hello = 0,
  error = 1,
  echo_request = 2,
  echo_reply = 3,
  experimenter = 4,
  features_request = 5,
  features_reply = 6,
  get_config_request = 7,
  get_config_reply = 8,
  set_config = 9,
  packet_in = 10,
  flow_removed = 11,
  port_status = 12,
  packet_out = 13,
  flow_mod = 14,
  group_mod = 15,
  port_mod = 16,
  table_mod = 17,
  multipart_request = 18,
  multipart_reply = 19,
  barrier_request = 20,
  barrier_reply = 21,
  queue_get_config_request = 22,
  queue_get_config_reply = 23,
  role_request = 24,
  role_reply = 25,
  get_async_request = 26,
  get_async_reply = 27,
  set_async = 28,
  meter_mod = 29,
};

/// ofp_multipart_type (section 7.3.5).
enum class MultipartType : uint16_t {
  desc = 0,
  flow = 1,
  aggregate = 2,
  table = 3,
  port_stats = 4,
  queue = 5,
  group = 6,
  group_desc = 7,
  group_features = 8,
  meter = 9,
  meter_config = 10,
  meter_features = 11,
  table_features = 12,
  port_desc = 13,
  experimenter = 0xffff,
};
inline constexpr uint16_t kMultipartMore = 1;  ///< OFPMPF_REQ_MORE and OFPMPF_REPLY_MORE

/// ofp_capabilities.
namespace capability {
inline constexpr uint32_t kFlowStats = 1 << 0;
inline constexpr uint32_t kTableStats = 1 << 1;
inline constexpr uint32_t kPortStats = 1 << 2;
inline constexpr uint32_t kGroupStats = 1 << 3;
inline constexpr uint32_t kIpReassembly = 1 << 5;
inline constexpr uint32_t kQueueStats = 1 << 6;
inline constexpr uint32_t kPortBlocked = 1 << 8;
}  // namespace capability

/// ofp_controller_role.
enum class Role : uint32_t { no_change = 0, equal = 1, master = 2, slave = 3 };

inline constexpr uint32_t kQueueAll = 0xffffffff;
inline constexpr uint16_t kFragmentMask = 3;  ///< the fragment handling bits of ofp_config_flags

}  // namespace headrace::openflow
