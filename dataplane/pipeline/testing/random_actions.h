// SPDX-License-Identifier: Apache-2.0
// Values and actions of random pipelines: from small ranges, so that rules, packets and edits meet.
#pragma once

#include "pipeline/testing/random_pipeline.h"

namespace headrace::pipeline::test {

/// Few addresses, close together: prefixes of all lengths tell some of them apart.
uint32_t choose_address(const Choose& choose);
uint64_t choose_mac(const Choose& choose);
uint64_t choose_port(const Choose& choose);
/// Few interface identifiers, as choose_address().
uint64_t choose_host(const Choose& choose);
/// A tunnel's outer address of either IP version, of one draw.
FieldValue choose_tunnel_address(const Choose& choose, match::Field ipv4, match::Field ipv6);
packet::TunnelKind choose_kind(const Choose& choose);
PushTunnelAction choose_push_tunnel(const Choose& choose);
/// At most `most` actions; groups are 0..n_groups-1.
ActionList choose_actions(const Choose& choose, size_t n_groups, size_t most);

}  // namespace headrace::pipeline::test
