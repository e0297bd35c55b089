// SPDX-License-Identifier: Apache-2.0
// The meters of one LSI: OFPT_METER_MOD and its statistics. Changes are staged until commit()
// (staged_map.h).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "pipeline/control/staged_map.h"
#include "pipeline/program/meter.h"
#include "pipeline/terms/reclaimer.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

inline constexpr uint32_t kMaxBands = 16;

class MeterTable {
 public:
  MeterTable(CounterSpace& counters, Reclaimer& reclaimer, uint64_t hz, uint32_t max_meters)
      : counters_(counters), hz_(hz), max_meters_(max_meters), meters_(counters, reclaimer) {}

  OfResult<> add(const MeterMod& mod, uint64_t now);
  OfResult<> modify(const MeterMod& mod);
  /// Unknown meters are no error (section 6.6); kMeterAll: all.
  void remove(uint32_t meter_id);

  // See StagedMap.
  [[nodiscard]] bool changed() const { return meters_.changed(); }
  void commit(uint64_t since) { meters_.commit(since); }
  void abort() { meters_.abort(); }
  void retire() { meters_.retire(); }

  /// The handle of a meter that exists, or null.
  [[nodiscard]] const MeterHandle* handle(uint32_t meter_id) const;
  [[nodiscard]] std::vector<uint32_t> ids() const;
  /// What the meter was made from; null if unknown.
  [[nodiscard]] const MeterMod* config(uint32_t meter_id) const;
  /// `flows` is left for the caller. The meter must exist.
  [[nodiscard]] MeterStats stats(uint32_t meter_id, uint64_t now) const;

 private:
  struct Entry {
    MeterMod mod;
    std::shared_ptr<MeterProgram> program;
    CounterIndex counter{0};
    std::vector<CounterIndex> band_counters;  ///< in the order of mod.bands
    uint64_t created{0};
    /// The meter's and its bands'.
    [[nodiscard]] std::vector<CounterIndex> counters() const;
  };

  static OfResult<> check(const MeterMod& mod);
  OfResult<> compile(const MeterMod& mod, Entry& entry);

  CounterSpace& counters_;
  uint64_t hz_;
  uint32_t max_meters_;
  StagedMap<Entry, MeterProgram, MeterHandle> meters_;
};

}  // namespace headrace::pipeline
