// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "base/version.h"
#include "openflow/agent/flow_monitors.h"
#include "openflow/agent/requests.h"
#include "openflow/codec/flows.h"
#include "openflow/codec/groups.h"
#include "openflow/codec/meters.h"
#include "openflow/codec/multipart.h"
#include "openflow/codec/ports.h"
#include "openflow/codec/table_features.h"

namespace headrace::openflow {
namespace {

/// Maximum octets of a request that spans messages; the features of all tables take half of it.
constexpr size_t kMaxParts = 1u << 20;

/// A multipart request being answered.
struct Exchange {
  AgentContext& context;
  Bytes body;
  MultipartReply reply;

  pipeline::Lsi& lsi() { return context.lsi; }
};

OfResult<> need_empty(Bytes body) {
  if (!body.empty()) return of_fail(error::kBadLen);
  return {};
}

OfResult<> description(Exchange& exchange) {
  if (OfResult<> empty = need_empty(exchange.body); !empty) return empty;
  const AgentConfig& config = exchange.context.config;
  exchange.reply.add([&config](Writer& writer) {
    encode_description(
        writer, {"Headrace", "headrace-switch", std::string(headrace::kVersion), config.serial,
                 config.description.empty() ? config.name : config.description});
  });
  return {};
}

OfResult<> flows(Exchange& exchange) {
  OfResult<pipeline::FlowFilter> filter = decode_flow_filter(exchange.body);
  if (!filter) return of_fail(filter.error());
  return exchange.lsi().for_each_flow(*filter, [&exchange](const pipeline::FlowStats& flow) {
    exchange.reply.add([&flow](Writer& writer) { encode_flow_stats(writer, flow); });
  });
}

OfResult<> aggregate(Exchange& exchange) {
  OfResult<pipeline::FlowFilter> filter = decode_flow_filter(exchange.body);
  if (!filter) return of_fail(filter.error());
  OfResult<pipeline::AggregateStats> stats = exchange.lsi().aggregate(*filter);
  if (!stats) return of_fail(stats.error());
  exchange.reply.add([&stats](Writer& writer) { encode_aggregate(writer, *stats); });
  return {};
}

OfResult<> tables(Exchange& exchange) {
  if (OfResult<> empty = need_empty(exchange.body); !empty) return empty;
  for (const pipeline::TableStats& table : exchange.lsi().table_stats()) {
    exchange.reply.add([&table](Writer& writer) { encode_table_stats(writer, table); });
  }
  return {};
}

/// Every table always supports everything, so a request is accepted if it asks for no more, and can
/// change only names.
OfResult<> set_table_features(Exchange& exchange) {
  OfResult<std::vector<TableFeatures>> asked = decode_table_features(exchange.body);
  if (!asked) return of_fail(asked.error());
  const std::vector<pipeline::TableStats> tables = exchange.lsi().table_stats();
  std::map<uint8_t, std::string> names;
  for (const TableFeatures& each : *asked) {
    const auto table = std::find_if(
        tables.begin(), tables.end(),
        [&](const pipeline::TableStats& stats) { return stats.table_id == each.table_id; });
    if (table == tables.end() || !names.emplace(each.table_id, each.name).second) {
      return of_fail(error::kFeaturesBadTable);
    }
    Message encoded;
    Writer writer(encoded);
    encode_table_features(writer, *table, "");
    const OfResult<std::vector<TableFeatures>> offer = decode_table_features(encoded);
    if (!offer) return of_fail(offer.error());
    if (!satisfies(offer->front(), each)) return of_fail(error::kFeaturesBadArgument);
  }
  // A table that is not listed would have to be removed.
  if (names.size() != tables.size()) return of_fail(error::kFeaturesNotPermitted);
  exchange.context.table_names = std::move(names);
  return {};
}

OfResult<> table_features(Exchange& exchange) {
  if (!exchange.body.empty()) {
    if (OfResult<> set = set_table_features(exchange); !set) return set;
  }
  for (const pipeline::TableStats& table : exchange.lsi().table_stats()) {
    const auto& names = exchange.context.table_names;
    const auto name = names.find(table.table_id);
    exchange.reply.add([&](Writer& writer) {
      encode_table_features(writer, table, name == names.end() ? "" : name->second);
    });
  }
  return {};
}

OfResult<> port_stats(Exchange& exchange) {
  OfResult<pipeline::PortNo> port = decode_port_request(exchange.body);
  if (!port) return of_fail(port.error());
  OfResult<std::vector<pipeline::PortStats>> all = exchange.lsi().port_stats(*port);
  if (!all) return of_fail(all.error());
  for (const pipeline::PortStats& stats : *all) {
    const DeviceCounters device = exchange.context.host.device_counters(stats.number);
    exchange.reply.add(
        [&stats, &device](Writer& writer) { encode_port_stats(writer, stats, device); });
  }
  return {};
}

OfResult<> port_descs(Exchange& exchange) {
  if (OfResult<> empty = need_empty(exchange.body); !empty) return empty;
  for (const pipeline::PortDesc& port : exchange.lsi().port_descs()) {
    exchange.reply.add([&port](Writer& writer) { encode_port(writer, port); });
  }
  return {};
}

OfResult<> queues(Exchange& exchange) {
  OfResult<QueueRequest> request = decode_queue_request(exchange.body);
  if (!request) return of_fail(request.error());
  if (request->port != pipeline::kPortAny && !exchange.lsi().port_desc(request->port)) {
    return of_fail(error::kQueueBadPort);
  }
  OfResult<std::vector<pipeline::PortStats>> ports = exchange.lsi().port_stats(request->port);
  if (!ports) return of_fail(error::kQueueBadPort);
  size_t found = 0;
  for (const pipeline::PortStats& port : *ports) {
    // A port without queues is reported as one queue with the port's counters.
    const bool whole = exchange.context.host.queues(port.number).empty();
    for (const QueueState& queue : queues_of(exchange.context.host, port.number)) {
      if (request->queue_id != kQueueAll && request->queue_id != queue.id) continue;
      ++found;
      const pipeline::QueueStats stats{.port = port.number,
                                       .queue_id = queue.id,
                                       .tx_packets = whole ? port.tx_packets : queue.tx_packets,
                                       .tx_bytes = whole ? port.tx_bytes : queue.tx_bytes,
                                       .tx_errors = whole ? port.tx_dropped : queue.tx_errors,
                                       .duration = port.duration};
      exchange.reply.add([&stats](Writer& writer) { encode_queue_stats(writer, stats); });
    }
  }
  if (found == 0 && request->queue_id != kQueueAll) return of_fail(error::kQueueBadQueue);
  return {};
}

OfResult<> groups(Exchange& exchange) {
  OfResult<uint32_t> group_id = decode_group_request(exchange.body);
  if (!group_id) return of_fail(group_id.error());
  for (const pipeline::GroupStats& group : exchange.lsi().group_stats(*group_id)) {
    exchange.reply.add([&group](Writer& writer) { encode_group_stats(writer, group); });
  }
  return {};
}

OfResult<> group_descs(Exchange& exchange) {
  if (OfResult<> empty = need_empty(exchange.body); !empty) return empty;
  for (const pipeline::GroupDesc& group : exchange.lsi().group_descs()) {
    exchange.reply.add([&group](Writer& writer) { encode_group_desc(writer, group); });
  }
  return {};
}

OfResult<> group_features(Exchange& exchange) {
  if (OfResult<> empty = need_empty(exchange.body); !empty) return empty;
  const uint32_t most = exchange.lsi().config().max_groups;
  exchange.reply.add([most](Writer& writer) { encode_group_features(writer, most); });
  return {};
}

OfResult<> meters(Exchange& exchange) {
  OfResult<uint32_t> meter_id = decode_meter_request(exchange.body);
  if (!meter_id) return of_fail(meter_id.error());
  OfResult<std::vector<pipeline::MeterStats>> all = exchange.lsi().meter_stats(*meter_id);
  if (!all) return of_fail(all.error());
  for (const pipeline::MeterStats& meter : *all) {
    exchange.reply.add([&meter](Writer& writer) { encode_meter_stats(writer, meter); });
  }
  return {};
}

OfResult<> meter_configs(Exchange& exchange) {
  OfResult<uint32_t> meter_id = decode_meter_request(exchange.body);
  if (!meter_id) return of_fail(meter_id.error());
  OfResult<std::vector<pipeline::MeterConfig>> all = exchange.lsi().meter_configs(*meter_id);
  if (!all) return of_fail(all.error());
  for (const pipeline::MeterConfig& meter : *all) {
    exchange.reply.add([&meter](Writer& writer) { encode_meter_config(writer, meter); });
  }
  return {};
}

OfResult<> meter_features(Exchange& exchange) {
  if (OfResult<> empty = need_empty(exchange.body); !empty) return empty;
  const uint32_t most = exchange.lsi().config().max_meters;
  exchange.reply.add([most](Writer& writer) { encode_meter_features(writer, most); });
  return {};
}

OfResult<> dispatch(MultipartType type, Exchange& exchange) {
  switch (type) {
    case MultipartType::desc:
      return description(exchange);
    case MultipartType::flow:
      return flows(exchange);
    case MultipartType::aggregate:
      return aggregate(exchange);
    case MultipartType::table:
      return tables(exchange);
    case MultipartType::port_stats:
      return port_stats(exchange);
    case MultipartType::queue:
      return queues(exchange);
    case MultipartType::group:
      return groups(exchange);
    case MultipartType::group_desc:
      return group_descs(exchange);
    case MultipartType::group_features:
      return group_features(exchange);
    case MultipartType::meter:
      return meters(exchange);
    case MultipartType::meter_config:
      return meter_configs(exchange);
    case MultipartType::meter_features:
      return meter_features(exchange);
    case MultipartType::table_features:
      return table_features(exchange);
    case MultipartType::port_desc:
      return port_descs(exchange);
    case MultipartType::experimenter:
      break;  // handled by handle_multipart()
  }
  return of_fail(error::kBadMultipart);
}

/// Experimenter requests; the only one is the flow monitor's.
OfResult<> experimenter(AgentContext& context, Peer& peer, uint32_t xid, Bytes body) {
  Reader reader(body);
  const uint32_t id = reader.u32();
  const uint32_t type = reader.u32();
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (id != kOnfExperimenter) return of_fail(error::kBadExperimenter);
  if (type != kFlowMonitor) return of_fail(error::kBadExpType);
  OfResult<std::vector<FlowMonitor>> monitors = decode_flow_monitors(reader.rest());
  if (!monitors) return of_fail(monitors.error());
  OfResult<std::vector<Message>> now = peer.monitors.add(*monitors, context.lsi, xid);
  if (!now) return of_fail(now.error());
  context.monitors_changed();
  for (const Message& message : *now) peer.connection->send(message);
  return {};
}

}  // namespace

OfResult<> handle_multipart(AgentContext& context, Peer& peer, uint32_t xid, Bytes body) {
  OfResult<MultipartRequest> request = decode_multipart_request(body);
  if (!request) return of_fail(request.error());
  // Only table features may span messages.
  Message whole;
  if (request->type == MultipartType::table_features) {
    if (peer.parts.xid != xid) peer.parts = {xid, {}};
    if (peer.parts.body.size() + request->body.size() > kMaxParts) {
      peer.parts = {};
      return of_fail(error::kMultipartOverflow);
    }
    peer.parts.body.insert(peer.parts.body.end(), request->body.begin(), request->body.end());
    if (request->more) return {};
    whole = std::exchange(peer.parts, {}).body;
    request->body = whole;
  } else if (request->more) {
    return of_fail(error::kMultipartOverflow);
  }
  if (request->type == MultipartType::experimenter) {
    return experimenter(context, peer, xid, request->body);
  }
  Exchange exchange{context, request->body, MultipartReply(xid, request->type)};
  if (OfResult<> done = dispatch(request->type, exchange); !done) return done;
  for (const Message& message : exchange.reply.finish()) peer.connection->send(message);
  return {};
}

}  // namespace headrace::openflow
