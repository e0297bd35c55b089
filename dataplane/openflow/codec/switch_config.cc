// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/switch_config.h"

namespace headrace::openflow {

Message encode_features(uint32_t xid, const Features& features) {
  Message message = begin_message(Type::features_reply, xid);
  Writer writer(message);
  writer.u64(features.datapath_id);
  writer.u32(features.n_buffers);
  writer.u8(features.n_tables);
  writer.u8(features.auxiliary_id);
  writer.zeros(2);
  writer.u32(features.capabilities);
  writer.u32(0);
  return finish(std::move(message));
}

Message encode_switch_config(uint32_t xid, const SwitchConfig& config) {
  Message message = begin_message(Type::get_config_reply, xid);
  Writer writer(message);
  writer.u16(config.flags);
  writer.u16(config.miss_send_len);
  return finish(std::move(message));
}

OfResult<SwitchConfig> decode_switch_config(Bytes body) {
  Reader reader(body);
  const uint16_t flags = reader.u16();
  const uint16_t miss_send_len = reader.u16();
  if (!reader.done()) return of_fail(error::kBadLen);
  if (flags > 2) return of_fail(error::kConfigBadFlags);
  return SwitchConfig{flags, miss_send_len};
}

OfResult<RoleRequest> decode_role_request(Bytes body) {
  Reader reader(body);
  const uint32_t role = reader.u32();
  reader.skip(4);
  const uint64_t generation_id = reader.u64();
  if (!reader.done()) return of_fail(error::kBadLen);
  if (role > static_cast<uint32_t>(Role::slave)) return of_fail(error::kBadRole);
  return RoleRequest{static_cast<Role>(role), generation_id};
}

Message encode_role_reply(uint32_t xid, const RoleRequest& role) {
  Message message = begin_message(Type::role_reply, xid);
  Writer writer(message);
  writer.u32(static_cast<uint32_t>(role.role));
  writer.zeros(4);
  writer.u64(role.generation_id);
  return finish(std::move(message));
}

Message encode_role_status(const RoleRequest& role) {
  constexpr uint32_t kRoleStatus = 1911;
  constexpr uint8_t kMasterRequest = 0;  // ofp_controller_role_reason
  Message message = begin_message(Type::experimenter, 0);
  Writer writer(message);
  writer.u32(kOnfExperimenter);
  writer.u32(kRoleStatus);
  writer.u32(static_cast<uint32_t>(role.role));
  writer.u8(kMasterRequest);
  writer.zeros(3);
  writer.u64(role.generation_id);
  return finish(std::move(message));
}

OfResult<AsyncConfig> decode_async(Bytes body) {
  Reader reader(body);
  AsyncConfig config;
  for (auto* masks : {&config.packet_in, &config.port_status, &config.flow_removed}) {
    for (uint32_t& mask : *masks) mask = reader.u32();
  }
  if (!reader.done()) return of_fail(error::kBadLen);
  return config;
}

Message encode_async(uint32_t xid, const AsyncConfig& config) {
  Message message = begin_message(Type::get_async_reply, xid);
  Writer writer(message);
  for (const auto* masks : {&config.packet_in, &config.port_status, &config.flow_removed}) {
    for (uint32_t mask : *masks) writer.u32(mask);
  }
  return finish(std::move(message));
}

OfResult<TableMod> decode_table_mod(Bytes body) {
  Reader reader(body);
  TableMod mod;
  mod.table_id = reader.u8();
  reader.skip(3);
  mod.config = reader.u32();
  if (!reader.done()) return of_fail(error::kBadLen);
  // OFPTC_DEPRECATED_MASK: bits 0 and 1 are accepted and ignored.
  if ((mod.config & ~3u) != 0) return of_fail(error::kTableModBadConfig);
  return mod;
}

OfResult<pipeline::PortNo> decode_queue_config_request(Bytes body) {
  Reader reader(body);
  const pipeline::PortNo port = reader.u32();
  reader.skip(4);
  if (!reader.done()) return of_fail(error::kBadLen);
  return port;
}

namespace {

void encode_queue_rate(Writer& writer, uint16_t property, uint16_t rate) {
  if (rate == kNoQueueRate) return;
  writer.u16(property);
  writer.u16(16);
  writer.zeros(4);
  writer.u16(rate);
  writer.zeros(6);
}

}  // namespace

Message encode_queue_config(uint32_t xid, pipeline::PortNo port, std::span<const Queue> queues) {
  Message message = begin_message(Type::queue_get_config_reply, xid);
  Writer writer(message);
  writer.u32(port);
  writer.zeros(4);
  constexpr uint16_t kMinRate = 1;  // ofp_queue_properties
  constexpr uint16_t kMaxRate = 2;
  for (const Queue& queue : queues) {
    const size_t start = writer.size();
    writer.u32(queue.queue_id);
    writer.u32(queue.port);
    const size_t length_at = writer.size();
    writer.u16(0);
    writer.zeros(6);
    encode_queue_rate(writer, kMinRate, queue.min_rate);
    encode_queue_rate(writer, kMaxRate, queue.max_rate);
    writer.patch16(length_at, writer.size() - start);
  }
  return finish(std::move(message));
}

}  // namespace headrace::openflow
