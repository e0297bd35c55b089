// SPDX-License-Identifier: Apache-2.0
// The checks that every function with its own address makes on a received frame first.
#pragma once

#include <cstring>

#include "vnf/net/address.h"
#include "vnf/net/ipv4_frame.h"
#include "vnf/output.h"

namespace headrace::vnf {

/// Whether the frame is an untagged, valid IPv4 packet sent to `own`. If not, the frame has been
/// consumed: `answer` replied to ARP, anything else was dropped with its reason.
template <typename AnswerArp>
bool admit_ipv4(rte_mbuf* frame, const MacAddress& own, Output& output, AnswerArp&& answer) {
  if (rte_pktmbuf_data_len(frame) < sizeof(packet::EthernetHeader)) {
    output.drop(frame, DropReason::malformed);
    return false;
  }
  const auto& ethernet = ethernet_of(frame);
  if (ethernet.type == packet::kTypeArp) {
    answer();
    return false;
  }
  if (ethernet.type != packet::kTypeIpv4 ||
      std::memcmp(ethernet.dst, own.data(), own.size()) != 0) {
    output.drop(frame, DropReason::not_for_us);
    return false;
  }
  if (!is_ipv4_valid(frame)) {
    output.drop(frame, DropReason::malformed);
    return false;
  }
  return true;
}

}  // namespace headrace::vnf
