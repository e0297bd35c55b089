// SPDX-License-Identifier: Apache-2.0
// Messages about the switch as a whole: features, configuration, roles, asynchronous configuration,
// table-mod, queue configuration.
//
// Source: OpenFlow 1.3.5, sections 7.3.1, 7.3.2, 7.3.3, 7.3.6, 7.3.9, 7.3.10.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "openflow/codec/errors.h"
#include "openflow/codec/message.h"
#include "openflow/codec/protocol.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// ofp_switch_features.
struct Features {
  uint64_t datapath_id{0};
  uint32_t n_buffers{0};
  uint8_t n_tables{0};
  uint8_t auxiliary_id{0};
  uint32_t capabilities{0};
};
Message encode_features(uint32_t xid, const Features& features);

/// ofp_switch_config.
struct SwitchConfig {
  uint16_t flags{0};            ///< fragment handling: 0 normal, 1 drop, 2 reassemble
  uint16_t miss_send_len{128};  ///< octets of a packet-in not caused by an output action
};
Message encode_switch_config(uint32_t xid, const SwitchConfig& config);
OfResult<SwitchConfig> decode_switch_config(Bytes body);

/// ofp_role_request.
struct RoleRequest {
  Role role{Role::no_change};
  uint64_t generation_id{UINT64_MAX};
};
OfResult<RoleRequest> decode_role_request(Bytes body);
Message encode_role_reply(uint32_t xid, const RoleRequest& role);

/// Notifies a controller that its role was changed because another became master. ONF extension
/// EXT-191 (the 1.3 form of OpenFlow 1.4's OFPT_ROLE_STATUS).
Message encode_role_status(const RoleRequest& role);

/// ofp_async_config: bit r of a mask enables reason r; [0] as equal or master, [1] as slave.
struct AsyncConfig {
  std::array<uint32_t, 2> packet_in{0b011, 0};
  std::array<uint32_t, 2> port_status{0b111, 0b111};
  std::array<uint32_t, 2> flow_removed{0b1111, 0};
};
OfResult<AsyncConfig> decode_async(Bytes body);
Message encode_async(uint32_t xid, const AsyncConfig& config);

/// ofp_table_mod; in 1.3 its config has no meaning any more.
struct TableMod {
  uint8_t table_id{0};
  uint32_t config{0};
};
OfResult<TableMod> decode_table_mod(Bytes body);

inline constexpr uint16_t kNoQueueRate = 0xffff;

/// The port of OFPT_QUEUE_GET_CONFIG_REQUEST.
OfResult<pipeline::PortNo> decode_queue_config_request(Bytes body);
/// One queue of a port. Rates are in tenths of a percent of the port's rate; kNoQueueRate: none.
struct Queue {
  pipeline::PortNo port{0};
  uint32_t queue_id{0};
  uint16_t min_rate{kNoQueueRate};
  uint16_t max_rate{kNoQueueRate};
};
Message encode_queue_config(uint32_t xid, pipeline::PortNo port, std::span<const Queue> queues);

}  // namespace headrace::openflow
