// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/ports.h"

#include "openflow/codec/message.h"

namespace headrace::openflow {

void encode_port(Writer& writer, const pipeline::PortDesc& port) {
  writer.u32(port.number);
  writer.zeros(4);
  writer.bytes(port.mac);
  writer.zeros(2);
  writer.text(port.name, 16);
  writer.u32(port.config);
  writer.u32(port.state);
  writer.u32(port.current);
  writer.u32(port.advertised);
  writer.u32(port.supported);
  writer.u32(port.peer);
  writer.u32(port.current_speed);
  writer.u32(port.max_speed);
}

void encode_port_stats(Writer& writer, const pipeline::PortStats& stats,
                       const DeviceCounters& device) {
  writer.u32(stats.number);
  writer.zeros(4);
  writer.u64(stats.rx_packets);
  writer.u64(stats.tx_packets);
  writer.u64(stats.rx_bytes);
  writer.u64(stats.tx_bytes);
  writer.u64(stats.rx_dropped + device.rx_dropped);
  writer.u64(stats.tx_dropped);
  writer.u64(device.rx_errors);
  writer.u64(device.tx_errors);
  writer.u64(device.rx_frame_errors);
  writer.u64(device.rx_overruns);
  writer.u64(device.rx_crc_errors);
  writer.u64(device.collisions);
  writer.u32(stats.duration.seconds);
  writer.u32(stats.duration.nanoseconds);
}

Message encode_port_status(pipeline::PortChange change, const pipeline::PortDesc& port) {
  Message message = begin_message(Type::port_status, 0);
  Writer writer(message);
  writer.u8(static_cast<uint8_t>(change));
  writer.zeros(7);
  encode_port(writer, port);
  return finish(std::move(message));
}

OfResult<pipeline::PortMod> decode_port_mod(Bytes body) {
  Reader reader(body);
  pipeline::PortMod mod;
  mod.port = reader.u32();
  reader.skip(4);
  const Bytes mac = reader.bytes(mod.mac.size());
  std::copy(mac.begin(), mac.end(), mod.mac.begin());
  reader.skip(2);
  mod.config = reader.u32();
  mod.mask = reader.u32();
  const uint32_t advertise = reader.u32();
  reader.skip(4);
  if (!reader.done()) return of_fail(error::kBadLen);
  if (advertise != 0) return of_fail(error::kPortModBadAdvertise);
  return mod;
}

}  // namespace headrace::openflow
