// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/packet_in.h"

#include <algorithm>
#include <array>

#include "openflow/codec/message.h"
#include "openflow/codec/oxm.h"

namespace headrace::openflow {
namespace {

/// Adds a number as an exact field.
void add_number(match::Match& match, match::Field field, uint64_t value) {
  std::array<uint8_t, match::kMaxFieldBytes> octets{};
  const size_t bytes = match::info(field).bytes;
  for (size_t i = 0; i < std::min(bytes, sizeof(value)); ++i) {
    octets[bytes - 1 - i] = static_cast<uint8_t>(value >> 8 * i);
  }
  match.add(field, octets.data());
}

}  // namespace

Message encode_packet_in(const pipeline::PuntInfo& info, Bytes packet, uint32_t buffer_id,
                         size_t data_len) {
  match::Match context;
  add_number(context, match::Field::in_port, info.in_port);
  if (info.in_phy_port != 0 && info.in_phy_port != info.in_port) {
    add_number(context, match::Field::in_phy_port, info.in_phy_port);
  }
  if (info.metadata != 0) add_number(context, match::Field::metadata, info.metadata);
  if (info.tunnel_id != 0) add_number(context, match::Field::tunnel_id, info.tunnel_id);

  Message message = begin_message(Type::packet_in, 0);
  Writer writer(message);
  writer.u32(buffer_id);
  writer.u16(static_cast<uint16_t>(std::min<size_t>(packet.size(), UINT16_MAX)));
  writer.u8(static_cast<uint8_t>(info.reason));
  writer.u8(info.table_id);
  writer.u64(info.cookie);
  encode_match(writer, context);
  writer.zeros(2);
  const size_t room = kMaxMessage - message.size();
  writer.bytes(packet.first(std::min({packet.size(), data_len, room})));
  return finish(std::move(message));
}

}  // namespace headrace::openflow
