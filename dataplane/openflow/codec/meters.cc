// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/meters.h"

namespace headrace::openflow {
namespace {

using pipeline::MeterBand;
using pipeline::MeterMod;

constexpr uint16_t kKbps = 1 << 0;
constexpr uint16_t kPacketsPerSecond = 1 << 1;
constexpr uint16_t kFlags = 0b1111;  // kbps, pktps, burst, stats
constexpr uint16_t kBandSize = 16;
constexpr uint16_t kBandExperimenter = 0xffff;
constexpr uint8_t kMaxBands = 16;

OfResult<MeterBand> decode_band(Reader& reader) {
  const uint16_t type = reader.u16();
  const uint16_t length = reader.u16();
  MeterBand band;
  band.rate = reader.u32();
  band.burst_size = reader.u32();
  band.prec_level = reader.u8();
  reader.skip(3);
  if (type == kBandExperimenter) return of_fail(error::kMeterBadBand);
  if (!reader.ok() || length != kBandSize) return of_fail(error::kBadLen);
  band.type = static_cast<MeterBand::Type>(type);
  switch (band.type) {
    case MeterBand::Type::drop:
      band.prec_level = 0;
      return band;
    case MeterBand::Type::dscp_remark:
      return band;
  }
  return of_fail(error::kMeterBadBand);
}

void encode_bands(Writer& writer, const std::vector<MeterBand>& bands) {
  for (const MeterBand& band : bands) {
    writer.u16(static_cast<uint16_t>(band.type));
    writer.u16(kBandSize);
    writer.u32(band.rate);
    writer.u32(band.burst_size);
    writer.u8(band.prec_level);
    writer.zeros(3);
  }
}

}  // namespace

OfResult<MeterMod> decode_meter_mod(Bytes body) {
  Reader reader(body);
  const uint16_t command = reader.u16();
  MeterMod mod;
  mod.flags = reader.u16();
  mod.meter_id = reader.u32();
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (command > static_cast<uint16_t>(MeterMod::Command::remove)) {
    return of_fail(error::kMeterBadCommand);
  }
  mod.command = static_cast<MeterMod::Command>(command);
  if (mod.command == MeterMod::Command::remove) return mod;
  if (mod.meter_id == 0 || mod.meter_id > pipeline::kMeterMax) {
    return of_fail(error::kInvalidMeter);
  }
  const bool both = (mod.flags & kKbps) != 0 && (mod.flags & kPacketsPerSecond) != 0;
  if ((mod.flags & ~kFlags) != 0 || both) return of_fail(error::kMeterBadFlags);
  while (reader.left() > 0) {
    OfResult<MeterBand> band = decode_band(reader);
    if (!band) return of_fail(band.error());
    mod.bands.push_back(*band);
  }
  return mod;
}

OfResult<uint32_t> decode_meter_request(Bytes body) {
  Reader reader(body);
  const uint32_t meter_id = reader.u32();
  reader.skip(4);
  if (!reader.done()) return of_fail(error::kBadLen);
  return meter_id;
}

void encode_meter_stats(Writer& writer, const pipeline::MeterStats& stats) {
  const size_t start = writer.size();
  writer.u32(stats.meter_id);
  const size_t length_at = writer.size();
  writer.u16(0);
  writer.zeros(6);
  writer.u32(stats.flows);
  writer.u64(stats.packets);
  writer.u64(stats.bytes);
  writer.u32(stats.duration.seconds);
  writer.u32(stats.duration.nanoseconds);
  for (const pipeline::BucketStats& band : stats.bands) {
    writer.u64(band.packets);
    writer.u64(band.bytes);
  }
  writer.patch16(length_at, writer.size() - start);
}

void encode_meter_config(Writer& writer, const pipeline::MeterConfig& config) {
  const size_t start = writer.size();
  writer.u16(0);
  writer.u16(config.flags);
  writer.u32(config.meter_id);
  encode_bands(writer, config.bands);
  writer.patch16(start, writer.size() - start);
}

void encode_meter_features(Writer& writer, uint32_t max_meters) {
  writer.u32(max_meters);
  writer.u32(1u << static_cast<unsigned>(MeterBand::Type::drop) |
             1u << static_cast<unsigned>(MeterBand::Type::dscp_remark));
  writer.u32(kFlags);
  writer.u8(kMaxBands);
  writer.u8(0);
  writer.zeros(2);
}

}  // namespace headrace::openflow
