// SPDX-License-Identifier: Apache-2.0
// The meters of one LSI: OFPT_METER_MOD and its statistics.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "pipeline/program/meter.h"
#include "pipeline/terms/reclaimer.h"
#include "pipeline/terms/stats.h"

namespace headrace::pipeline {

inline constexpr uint32_t kMaxBands = 16;

class MeterTable {
 public:
  MeterTable(CounterSpace& counters, Reclaimer& reclaimer, uint64_t hz, uint32_t max_meters)
      : counters_(counters), reclaimer_(reclaimer), hz_(hz), max_meters_(max_meters) {}
  ~MeterTable();

  OfResult<> add(const MeterMod& mod, uint64_t now);
  OfResult<> modify(const MeterMod& mod);
  /// Unknown meters are no error (section 6.6); kMeterAll: all.
  void remove(uint32_t meter_id);

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
  };

  static OfResult<> check(const MeterMod& mod);
  OfResult<> compile(const MeterMod& mod, Entry& entry);
  void retire(Entry& entry, bool with_counter);

  CounterSpace& counters_;
  Reclaimer& reclaimer_;
  uint64_t hz_;
  uint32_t max_meters_;
  std::map<uint32_t, std::unique_ptr<MeterHandle>> handles_;
  std::map<uint32_t, Entry> meters_;
};

}  // namespace headrace::pipeline
