// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/requests.h"

#include <algorithm>
#include <vector>

#include "openflow/agent/flow_monitors.h"
#include "openflow/codec/flows.h"
#include "openflow/codec/groups.h"
#include "openflow/codec/meters.h"
#include "openflow/codec/packet_out.h"
#include "openflow/codec/ports.h"
#include "pipeline/program/action_program.h"

namespace headrace::openflow {
namespace {

using pipeline::FlowMod;

constexpr size_t kEthernetHeader = 14;

/// One message and its connection.
struct Request {
  AgentContext& context;
  Peer& peer;
  uint32_t xid;
  Bytes message;
  Bytes body;

  void reply(const Message& message) const { peer.connection->send(message); }
  OfResult<> need_empty_body() const {
    if (!body.empty()) return of_fail(error::kBadLen);
    return {};
  }
};

OfResult<> features(const Request& request) {
  if (OfResult<> empty = request.need_empty_body(); !empty) return empty;
  namespace has = capability;
  Features features;
  features.datapath_id = request.context.config.datapath_id;
  features.n_buffers = PacketBuffers::kCount;
  features.n_tables = pipeline::kTableCount;
  features.capabilities = has::kFlowStats | has::kTableStats | has::kPortStats | has::kGroupStats |
                          has::kQueueStats | has::kIpReassembly;
  request.reply(encode_features(request.xid, features));
  return {};
}

OfResult<> set_config(const Request& request) {
  OfResult<SwitchConfig> config = decode_switch_config(request.body);
  if (!config) return of_fail(config.error());
  // Fragment handling is common to all connections; miss_send_len is per connection.
  if (!request.context.host.set_fragments(static_cast<pipeline::FragmentMode>(config->flags))) {
    return of_fail(error::kConfigNotPermitted);
  }
  request.peer.config = *config;
  return {};
}

/// Sends a packet through `actions`.
OfResult<> send_packet(AgentContext& context, pipeline::PortNo in_port,
                       const pipeline::ActionList& actions, Bytes packet) {
  if (packet.size() < kEthernetHeader || packet.size() > context.host.largest_packet()) {
    return of_fail(error::kBadPacket);
  }
  OfResult<std::unique_ptr<pipeline::ActionProgram>> program = context.lsi.compile(actions);
  if (!program) return of_fail(program.error());
  // If the queue to the worker is full, the packet is lost as on any full queue; the host counts
  // it.
  context.host.packet_out(in_port, std::move(*program), packet);
  return {};
}

OfResult<> packet_out(const Request& request) {
  OfResult<PacketOut> out = decode_packet_out(request.body);
  if (!out) return of_fail(out.error());
  if (out->buffer_id == pipeline::kNoBuffer) {
    return send_packet(request.context, out->in_port, out->actions, out->packet);
  }
  OfResult<PacketBuffers::Packet> packet = request.context.buffers.take(out->buffer_id);
  if (!packet) return of_fail(packet.error());
  return send_packet(request.context, packet->in_port, out->actions, packet->data);
}

/// Sends a flow-mod's buffered packet through the tables, when these are as the flow-mod has them.
OfResult<> release_buffer(const Request& request, const FlowMod& mod) {
  const bool takes_buffer = mod.command == FlowMod::Command::add ||
                            mod.command == FlowMod::Command::modify ||
                            mod.command == FlowMod::Command::modify_strict;
  if (mod.buffer_id == pipeline::kNoBuffer || !takes_buffer) return {};
  OfResult<PacketBuffers::Packet> packet = request.context.buffers.take(mod.buffer_id);
  if (!packet) return of_fail(packet.error());
  const pipeline::ActionList to_tables{pipeline::OutputAction{pipeline::kPortTable}};
  AgentContext& context = request.context;
  if (!context.lsi.changing()) {
    return send_packet(context, packet->in_port, to_tables, packet->data);
  }
  context.lsi.when_visible([&context, alive = std::weak_ptr<bool>(context.alive), to_tables,
                            packet = std::move(*packet)] {
    if (!alive.expired()) (void)send_packet(context, packet.in_port, to_tables, packet.data);
  });
  return {};
}

OfResult<> flow_mod(const Request& request) {
  OfResult<FlowMod> mod = decode_flow_mod(request.body);
  if (!mod) return of_fail(mod.error());
  if (OfResult<> done = request.context.lsi.flow_mod(*mod); !done) return done;
  return release_buffer(request, *mod);
}

OfResult<> group_mod(const Request& request) {
  OfResult<pipeline::GroupMod> mod = decode_group_mod(request.body);
  if (!mod) return of_fail(mod.error());
  return request.context.lsi.group_mod(*mod);
}

OfResult<> meter_mod(const Request& request) {
  OfResult<pipeline::MeterMod> mod = decode_meter_mod(request.body);
  if (!mod) return of_fail(mod.error());
  return request.context.lsi.meter_mod(*mod);
}

OfResult<> port_mod(const Request& request) {
  OfResult<pipeline::PortMod> mod = decode_port_mod(request.body);
  if (!mod) return of_fail(mod.error());
  return request.context.lsi.port_mod(*mod);
}

OfResult<> table_mod(const Request& request) {
  OfResult<TableMod> mod = decode_table_mod(request.body);
  if (!mod) return of_fail(mod.error());
  if (mod->table_id != pipeline::kTableAll && mod->table_id >= pipeline::kTableCount) {
    return of_fail(error::kTableModBadTable);
  }
  return {};
}

/// A rate in tenths of a percent of a port's speed (kbit/s).
uint16_t share(uint64_t rate_bps, uint32_t speed_kbps) {
  if (rate_bps == 0 || speed_kbps == 0) return kNoQueueRate;
  return static_cast<uint16_t>(std::min<uint64_t>(rate_bps / speed_kbps, 1000));
}

OfResult<> queue_config(const Request& request) {
  OfResult<pipeline::PortNo> port = decode_queue_config_request(request.body);
  if (!port) return of_fail(port.error());
  if (*port != pipeline::kPortAny && !request.context.lsi.port_desc(*port)) {
    return of_fail(error::kQueueBadPort);
  }
  std::vector<Queue> queues;
  for (const pipeline::PortDesc& desc : request.context.lsi.port_descs()) {
    if (*port != pipeline::kPortAny && *port != desc.number) continue;
    for (const QueueState& state : queues_of(request.context.host, desc.number)) {
      queues.push_back({desc.number, state.id, share(state.min_rate_bps, desc.current_speed),
                        share(state.max_rate_bps, desc.current_speed)});
    }
  }
  request.reply(encode_queue_config(request.xid, *port, queues));
  return {};
}

/// Section 6.3.6: master and slave requests carry a generation id that must not decrease.
OfResult<> role(const Request& request) {
  OfResult<RoleRequest> asked = decode_role_request(request.body);
  if (!asked) return of_fail(asked.error());
  std::optional<uint64_t>& generation = request.context.generation_id;
  if (asked->role == Role::master || asked->role == Role::slave) {
    // Distance with wrap-around, as the specification defines it.
    const auto ahead = static_cast<int64_t>(asked->generation_id - generation.value_or(0));
    if (generation && ahead < 0) return of_fail(error::kRoleStale);
    generation = asked->generation_id;
  }
  if (asked->role != Role::no_change) request.peer.role = asked->role;
  if (asked->role == Role::master) request.context.demote_others(request.peer);
  request.reply(
      encode_role_reply(request.xid, {request.peer.role, generation.value_or(UINT64_MAX)}));
  return {};
}

OfResult<> set_async(const Request& request) {
  OfResult<AsyncConfig> config = decode_async(request.body);
  if (!config) return of_fail(config.error());
  request.peer.async = *config;
  return {};
}

OfResult<> bundle_control(const Request& request, Bytes body) {
  OfResult<BundleControl> control = decode_bundle_control(body);
  if (!control) return of_fail(control.error());
  std::vector<CommitFailure> failures;
  OfResult<> done = request.peer.bundles.control(*control, request.context.lsi, failures);
  for (const CommitFailure& failure : failures) {
    const std::optional<Header> header = decode_header(failure.message);
    request.peer.connection->send_error(header->xid, failure.error, failure.message);
  }
  if (!done) return done;
  // The number of each reply type is that of its request + 1.
  control->type = static_cast<BundleControlType>(static_cast<uint16_t>(control->type) + 1);
  // A commit is done when workers see it.
  request.context.lsi.when_visible([connection = std::weak_ptr<Connection>(request.peer.connection),
                                    reply = encode_bundle_control(request.xid, *control)] {
    if (const auto open = connection.lock()) open->send(reply);
  });
  return {};
}

/// Open vSwitch's NXT_SET_PACKET_IN_FORMAT selects a form of packet-ins; only the standard form is
/// supported. A tool whose request for another is rejected falls back to this one.
OfResult<> nicira(uint32_t type, Bytes body) {
  constexpr uint32_t kSetPacketInFormat = 16;
  constexpr uint32_t kStandardFormat = 0;
  if (type != kSetPacketInFormat) return of_fail(error::kBadExpType);
  Reader reader(body);
  const uint32_t format = reader.u32();
  if (!reader.done()) return of_fail(error::kBadLen);
  if (format != kStandardFormat) return of_fail(error::kRequestNotPermitted);
  return {};
}

OfResult<> experimenter(const Request& request) {
  Reader reader(request.body);
  const uint32_t id = reader.u32();
  const uint32_t type = reader.u32();
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (id == kNiciraExperimenter) return nicira(type, reader.rest());
  if (id != kOnfExperimenter) return of_fail(error::kBadExperimenter);
  if (type == kBundleControl) return bundle_control(request, reader.rest());
  if (type == kBundleAddMessage) {
    OfResult<BundleAdd> add = decode_bundle_add(reader.rest());
    if (!add) return of_fail(add.error());
    return request.peer.bundles.add(*add, request.xid);
  }
  if (type == kFlowMonitor) {
    OfResult<uint32_t> monitor = decode_flow_monitor_cancel(reader.rest());
    if (!monitor) return of_fail(monitor.error());
    OfResult<> cancelled = request.peer.monitors.cancel(*monitor);
    request.context.monitors_changed();
    return cancelled;
  }
  return of_fail(error::kBadExpType);
}

/// Whether a message fills or commits a bundle.
bool is_of_bundle(Bytes body) {
  Reader reader(body);
  const uint32_t id = reader.u32();
  const uint32_t type = reader.u32();
  return id == kOnfExperimenter && (type == kBundleControl || type == kBundleAddMessage);
}

/// Whether table features have a body, which is a request to set them.
bool is_setting_of_tables(Bytes body) {
  const OfResult<MultipartRequest> request = decode_multipart_request(body);
  return request && request->type == MultipartType::table_features && !request->body.empty();
}

OfResult<> barrier(const Request& request) {
  if (OfResult<> empty = request.need_empty_body(); !empty) return empty;
  request.reply(make_message(Type::barrier_reply, request.xid));
  return {};
}

OfResult<> get_config(const Request& request) {
  if (OfResult<> empty = request.need_empty_body(); !empty) return empty;
  SwitchConfig config = request.peer.config;
  config.flags = static_cast<uint16_t>(request.context.lsi.fragments());
  request.reply(encode_switch_config(request.xid, config));
  return {};
}

OfResult<> get_async(const Request& request) {
  if (OfResult<> empty = request.need_empty_body(); !empty) return empty;
  request.reply(encode_async(request.xid, request.peer.async));
  return {};
}

OfResult<> dispatch(const Request& request, const Header& header) {
  switch (header.type) {
    case Type::error:
      return {};  // a peer's error message is not answered
    case Type::experimenter:
      return experimenter(request);
    case Type::features_request:
      return features(request);
    case Type::get_config_request:
      return get_config(request);
    case Type::set_config:
      return set_config(request);
    case Type::packet_out:
      return packet_out(request);
    case Type::flow_mod:
      return flow_mod(request);
    case Type::group_mod:
      return group_mod(request);
    case Type::port_mod:
      return port_mod(request);
    case Type::table_mod:
      return table_mod(request);
    case Type::multipart_request:
      return handle_multipart(request.context, request.peer, request.xid, request.body);
    case Type::barrier_request:
      return barrier(request);
    case Type::queue_get_config_request:
      return queue_config(request);
    case Type::role_request:
      return role(request);
    case Type::get_async_request:
      return get_async(request);
    case Type::set_async:
      return set_async(request);
    case Type::meter_mod:
      return meter_mod(request);
    default:
      return of_fail(error::kBadType);
  }
}

}  // namespace

bool changes_switch(const Header& header, Bytes body) {
  switch (header.type) {
    case Type::packet_out:
    case Type::flow_mod:
    case Type::group_mod:
    case Type::port_mod:
    case Type::table_mod:
    case Type::meter_mod:
      return true;
    case Type::experimenter:
      return is_of_bundle(body);
    case Type::multipart_request:
      return is_setting_of_tables(body);
    default:
      return false;
  }
}

std::vector<QueueState> queues_of(const AgentHost& host, pipeline::PortNo port) {
  std::vector<QueueState> queues = host.queues(port);
  if (queues.empty()) queues.emplace_back();
  return queues;
}

void handle_request(AgentContext& context, Peer& peer, const Header& header, Bytes message) {
  const Request request{context, peer, header.xid, message, message.subspan(kHeaderSize)};
  // A slave may read but not change (section 6.3.6; EXT-230 for bundles).
  if (peer.is_slave() && changes_switch(header, request.body)) {
    peer.connection->send_error(header.xid, error::kIsSlave, message);
    return;
  }
  context.requester = {&peer, header.xid};
  const OfResult<> done = dispatch(request, header);
  context.requester = {};
  if (!done) {
    peer.connection->send_error(header.xid, done.error(), message);
  }
}

}  // namespace headrace::openflow
