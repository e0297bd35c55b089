// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/meter_table.h"

#include <algorithm>
#include <numeric>

#include "pipeline/control/port_table.h"
#include "pipeline/terms/of_errors.h"

namespace headrace::pipeline {

std::vector<CounterIndex> MeterTable::Entry::counters() const {
  std::vector<CounterIndex> all = band_counters;
  all.push_back(counter);
  return all;
}

OfResult<> MeterTable::check(const MeterMod& mod) {
  if (mod.meter_id == 0 || mod.meter_id > kMeterMax) return tl::unexpected(of_error::kMeterInvalid);
  const uint16_t unit = mod.flags & (kMeterKbps | kMeterPktps);
  if (unit == (kMeterKbps | kMeterPktps) || mod.flags > 15) {
    return tl::unexpected(of_error::kMeterBadFlags);
  }
  if (mod.bands.size() > kMaxBands) return tl::unexpected(of_error::kMeterOutOfBands);
  for (const MeterBand& band : mod.bands) {
    if (band.type != MeterBand::Type::drop && band.type != MeterBand::Type::dscp_remark) {
      return tl::unexpected(of_error::kMeterBadBand);
    }
    if (band.rate == 0) return tl::unexpected(of_error::kMeterBadRate);
    if (band.type == MeterBand::Type::dscp_remark &&
        (band.prec_level == 0 || band.prec_level > 2)) {
      return tl::unexpected(of_error::kMeterBadBandValue);
    }
  }
  return {};
}

OfResult<> MeterTable::compile(const MeterMod& mod, Entry& entry) {
  auto program = std::make_shared<MeterProgram>();
  program->by_packets = (mod.flags & kMeterPktps) != 0;
  program->counter = entry.counter;
  std::vector<CounterIndex> counters;
  for (size_t i = 0; i < mod.bands.size(); ++i) {
    const std::optional<CounterIndex> counter = counters_.allocate();
    if (!counter) {
      for (CounterIndex index : counters) counters_.release(index);
      return tl::unexpected(of_error::kMeterOutOfBands);
    }
    counters.push_back(*counter);
  }
  std::vector<size_t> order(mod.bands.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return mod.bands[a].rate > mod.bands[b].rate; });
  for (size_t index : order) {
    BandProgram* made = &program->first;
    if (std::exchange(program->has_band, true)) {
      made = program->rest.emplace_back(std::make_unique<BandProgram>()).get();
      program->has_more = true;
    }
    const MeterBand& band = mod.bands[index];
    made->type = band.type;
    made->prec_level = band.prec_level;
    made->counter = counters[index];
    // Units per second: packets, or bytes at 1 kbps = 125 byte/s.
    const double rate = program->by_packets ? band.rate : band.rate * 125.0;
    const double cycles_per_unit = static_cast<double>(hz_) / rate;
    made->cost = static_cast<uint64_t>(cycles_per_unit * 256.0 * 65536.0);
    const bool given = (mod.flags & kMeterBurst) != 0 && band.burst_size != 0;
    const double burst_units =
        given ? (program->by_packets ? band.burst_size : band.burst_size * 125.0) : rate / 2;
    made->burst = static_cast<uint64_t>(burst_units * cycles_per_unit * 256.0);
  }

  entry.mod = mod;
  entry.program = std::move(program);
  entry.band_counters = std::move(counters);
  return {};
}

OfResult<> MeterTable::add(const MeterMod& mod, uint64_t now) {
  if (meters_.find(mod.meter_id) != nullptr) return tl::unexpected(of_error::kMeterExists);
  if (OfResult<> checked = check(mod); !checked) return checked;
  if (meters_.entries().size() >= max_meters_) return tl::unexpected(of_error::kMeterOutOfMeters);
  Entry entry;
  const std::optional<CounterIndex> counter = counters_.allocate();
  if (!counter) return tl::unexpected(of_error::kMeterOutOfMeters);
  entry.counter = *counter;
  entry.created = now;
  if (OfResult<> compiled = compile(mod, entry); !compiled) {
    counters_.release(*counter);
    return compiled;
  }
  meters_.put(mod.meter_id, std::move(entry));
  return {};
}

OfResult<> MeterTable::modify(const MeterMod& mod) {
  const Entry* found = meters_.find(mod.meter_id);
  if (found == nullptr) return tl::unexpected(of_error::kMeterUnknown);
  if (OfResult<> checked = check(mod); !checked) return checked;
  Entry entry = *found;
  if (OfResult<> compiled = compile(mod, entry); !compiled) return compiled;
  meters_.put(mod.meter_id, std::move(entry));
  return {};
}

void MeterTable::remove(uint32_t meter_id) {
  for (const uint32_t id : meter_id == kMeterAll ? ids() : std::vector{meter_id}) {
    meters_.erase(id);
  }
}

const MeterHandle* MeterTable::handle(uint32_t meter_id) const {
  return meters_.handle(meter_id);
}

std::vector<uint32_t> MeterTable::ids() const {
  std::vector<uint32_t> all;
  for (const auto& [id, entry] : meters_.entries()) all.push_back(id);
  return all;
}

const MeterMod* MeterTable::config(uint32_t meter_id) const {
  const Entry* found = meters_.find(meter_id);
  return found == nullptr ? nullptr : &found->mod;
}

MeterStats MeterTable::stats(uint32_t meter_id, uint64_t now) const {
  const Entry& entry = *meters_.find(meter_id);
  MeterStats stats;
  stats.meter_id = meter_id;
  const Count total = counters_.sum(entry.counter);
  stats.packets = total.packets;
  stats.bytes = total.bytes;
  stats.duration = to_duration(now - entry.created, hz_);
  for (CounterIndex index : entry.band_counters) {
    const Count band = counters_.sum(index);
    stats.bands.push_back({band.packets, band.bytes});
  }
  return stats;
}

}  // namespace headrace::pipeline
