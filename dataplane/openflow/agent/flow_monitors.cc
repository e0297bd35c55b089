// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/flow_monitors.h"

#include <algorithm>

#include "pipeline/control/flow_table.h"

namespace headrace::openflow {
namespace {

uint16_t flag_of(pipeline::FlowChange change) {
  switch (change) {
    case pipeline::FlowChange::added:
      return monitor_flag::kAdd;
    case pipeline::FlowChange::removed:
      return monitor_flag::kDelete;
    case pipeline::FlowChange::modified:
      return monitor_flag::kModify;
  }
  return 0;
}

}  // namespace

OfResult<std::vector<Message>> FlowMonitors::add(const std::vector<FlowMonitor>& monitors,
                                                 const pipeline::Lsi& lsi, uint32_t xid) {
  std::map<uint32_t, FlowMonitor> all = monitors_;
  for (const FlowMonitor& monitor : monitors) {
    if (all.size() >= kMax) return of_fail(error::kRequestNotPermitted);
    if (!all.emplace(monitor.id, monitor).second) return of_fail(error::kMonitorExists);
  }
  MultipartReply reply = flow_monitor_reply(xid);
  for (auto monitor = monitors.begin(); monitor != monitors.end(); ++monitor) {
    if ((monitor->flags & monitor_flag::kInitial) == 0) continue;
    const auto visit = [&](const pipeline::FlowStats& flow) {
      const bool named = std::any_of(monitors.begin(), monitor, [&](const FlowMonitor& before) {
        return (before.flags & monitor_flag::kInitial) != 0 &&
               pipeline::selects(before.filter, flow);
      });
      if (named) return;
      reply.add([&](Writer& writer) {
        encode_flow_update(writer, flow, pipeline::FlowChange::added, {},
                           (monitor->flags & monitor_flag::kInstructions) != 0);
      });
    };
    if (OfResult<> done = lsi.for_each_flow(monitor->filter, visit); !done) {
      return of_fail(done.error());
    }
  }
  monitors_ = std::move(all);
  return reply.finish();
}

OfResult<> FlowMonitors::cancel(uint32_t id) {
  if (monitors_.erase(id) == 0) return of_fail(error::kUnknownMonitor);
  return {};
}

std::optional<Message> FlowMonitors::update(const pipeline::FlowStats& flow,
                                            pipeline::FlowChange change,
                                            pipeline::FlowRemovedReason reason,
                                            std::optional<uint32_t> own_xid) {
  uint16_t flags = 0;
  for (const auto& [id, monitor] : monitors_) {
    if ((monitor.flags & flag_of(change)) != 0 && pipeline::selects(monitor.filter, flow)) {
      flags |= monitor.flags;
    }
  }
  if (flags == 0) return std::nullopt;
  MultipartReply reply = flow_monitor_reply(0);
  if (own_xid && (flags & monitor_flag::kOwn) == 0) {
    if (abbreviated_ == own_xid) return std::nullopt;
    abbreviated_ = own_xid;
    reply.add([&](Writer& writer) { encode_flow_update_abbreviated(writer, *own_xid); });
  } else {
    reply.add([&](Writer& writer) {
      encode_flow_update(writer, flow, change, reason, (flags & monitor_flag::kInstructions) != 0);
    });
  }
  return std::move(reply.finish().front());
}

}  // namespace headrace::openflow
