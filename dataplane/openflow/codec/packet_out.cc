// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/packet_out.h"

#include "openflow/codec/actions.h"

namespace headrace::openflow {

OfResult<PacketOut> decode_packet_out(Bytes body) {
  Reader reader(body);
  PacketOut out;
  out.buffer_id = reader.u32();
  out.in_port = reader.u32();
  const uint16_t actions_len = reader.u16();
  reader.skip(6);
  if (!reader.ok()) return of_fail(error::kBadLen);
  const Bytes action_bytes = reader.bytes(actions_len);
  if (!reader.ok()) return of_fail(error::kBadLen);
  const bool real = out.in_port > 0 && out.in_port <= pipeline::kPortMax;
  if (!real && out.in_port != pipeline::kPortController && out.in_port != pipeline::kPortLocal) {
    return of_fail(error::kBadPort);
  }
  OfResult<pipeline::ActionList> actions = decode_actions(action_bytes, ActionContext::packet_out);
  if (!actions) return of_fail(actions.error());
  out.actions = std::move(*actions);
  out.packet = reader.rest();
  return out;
}

}  // namespace headrace::openflow
