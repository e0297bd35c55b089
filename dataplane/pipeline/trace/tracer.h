// SPDX-License-Identifier: Apache-2.0
// What becomes of one packet, told step by step, without sending it: ovs-appctl ofproto/trace.
//
// A trace goes the way of a packet on the control thread, over what workers run: it looks the
// packet's FlowKey up in each published CompiledTable, takes the buckets of the published groups,
// and asks the published ports what they refuse. What actions do to the packet is done by each
// operation's own reference, to a copy of the packet. So a trace can't disagree with the tables,
// and trace_test.cc holds outputs, packet-ins and drops against the executor's on random pipelines.
//
// It has no effects: no counter moves, no address is learned, no meter is charged, no flow is noted
// in a stateful group, nothing leaves. Meters are named, but whether a meter would drop the packet
// depends on its rate and is not told; copies for mirrors are not followed.
//
// Thread safety: control thread.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <string>
#include <vector>

#include "match/fields/fields.h"
#include "pipeline/control/lsi.h"
#include "pipeline/terms/drop_reason.h"
#include "pipeline/terms/punt.h"

namespace headrace::pipeline {

/// A packet on its way out, by a port with a device.
struct TracedOutput {
  std::string bridge;
  PortNo port;
  std::vector<uint8_t> frame;
};

struct TracedPunt {
  uint8_t table_id;
  PuntReason reason;
  std::vector<uint8_t> frame;
};

struct Trace {
  std::string text;
  std::vector<TracedOutput> outputs;
  std::vector<TracedPunt> punts;
  std::vector<DropReason> drops;
};

/// What a packet has beside its octets when it comes in, in network byte order.
struct TracedFields {
  uint64_t metadata{0};
  uint64_t tunnel_id{0};
  uint32_t tun_src{0};
  uint32_t tun_dst{0};
};

/// Follows `packet`, which stays the caller's and as it is, from `in_port` through the LSI and
/// those that it is patched to.
Trace trace(const Lsi& lsi, PortNo in_port, const rte_mbuf* packet, const TracedFields& fields);

}  // namespace headrace::pipeline
