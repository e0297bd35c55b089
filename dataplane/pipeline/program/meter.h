// SPDX-License-Identifier: Apache-2.0
// Meters: token buckets that several workers share without a lock.
//
// A band is a leaky bucket in its "virtual scheduling" form (GCRA, ITU-T I.371): one number, the
// time at which the bucket will be empty again. A packet that comes when that time is no more than
// the burst tolerance ahead conforms, and pushes it by the packet's cost. So a band is one atomic
// word; no tokens are ever refilled, and rates are exact over any period.
//
// The packets of a burst are charged together: one after another in a copy of the word, which one
// compare-exchange then makes the band's, unless another worker was faster, when it starts again. A
// compare-exchange for each packet would have the workers fetch the line from one another up to 32
// times as often. A worker that is alone stores what it read and changed: nobody else writes.
//
// Of the bands that a packet exceeds, the one with the highest rate acts (section 5.7).
//
// A band without a burst size of its own takes half a second of its rate at once: the specification
// leaves it open. Much less, and a sender or worker that is held up for a moment loses rate that it
// was promised (a tenth of a second is eight full frames at 1 Mbit/s); Open vSwitch takes a second.
//
// Source: OpenFlow Switch Specification 1.3.5, sections 5.7 and 6.6.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/program/handles.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::pipeline {

inline constexpr uint16_t kMeterKbps = 1 << 0;
inline constexpr uint16_t kMeterPktps = 1 << 1;
inline constexpr uint16_t kMeterBurst = 1 << 2;
inline constexpr uint16_t kMeterStatsFlag = 1 << 3;

/// One band, as workers use it. Times are TSC cycles in units of 1/256.
struct BandProgram {
  MeterBand::Type type{};
  uint8_t prec_level{0};
  CounterIndex counter{0};
  uint64_t cost{0};   ///< of one byte or one packet, in 1/65536 of a time unit
  uint64_t burst{0};  ///< how far ahead of now the bucket may be
  mutable std::atomic<uint64_t> empty_at{0};
};

/// A meter; with its first band, the only one of most, in one cache line.
struct alignas(64) MeterProgram : Versioned<MeterProgram> {
  bool by_packets{false};
  bool has_band{false};
  bool has_more{false};  ///< bands, in `rest`
  CounterIndex counter{0};
  BandProgram first;                               ///< the one with the highest rate
  std::vector<std::unique_ptr<BandProgram>> rest;  ///< falling rates

  /// Charges packets of these lengths, in octets, one after another at `now` (TSC). Each entry of
  /// `exceeded`, which is as long, becomes the band that the packet exceeds, or null if it conforms
  /// to all. At most 32 packets. `alone`: no other thread charges this meter meanwhile.
  void charge(uint64_t now, std::span<const uint32_t> lengths,
              std::span<const BandProgram*> exceeded, bool alone) const noexcept {
    std::ranges::fill(exceeded, nullptr);
    if (!has_band) return;
    charge_band(first, now << 8, lengths, exceeded, alone);
    if (!has_more) return;
    for (const std::unique_ptr<BandProgram>& band : rest) {
      charge_band(*band, now << 8, lengths, exceeded, alone);
    }
  }

  /// The same for one packet: the band that it exceeds, or null.
  [[nodiscard]] const BandProgram* charge(uint64_t now, uint32_t length,
                                          bool alone) const noexcept {
    const uint64_t units = by_packets ? 1 : length;
    const BandProgram* exceeded = nullptr;
    if (has_band && !conforms(first, now << 8, units, alone)) exceeded = &first;
    if (!has_more) return exceeded;
    for (const std::unique_ptr<BandProgram>& band : rest) {
      if (!conforms(*band, now << 8, units, alone) && exceeded == nullptr) exceeded = band.get();
    }
    return exceeded;
  }

 private:
  /// When the bucket is empty again after a packet that conforms.
  static uint64_t charged(const BandProgram& band, uint64_t empty_at, uint64_t now,
                          uint64_t units) noexcept {
    return (empty_at > now ? empty_at : now) +
           static_cast<uint64_t>(static_cast<unsigned __int128>(units) * band.cost >> 16);
  }

  /// Makes `after` what the band has; false: it was no longer `before`, which is what it has now.
  static bool replace(const BandProgram& band, uint64_t& before, uint64_t after,
                      bool alone) noexcept {
    if (!alone) {
      return band.empty_at.compare_exchange_weak(before, after, std::memory_order_relaxed);
    }
    band.empty_at.store(after, std::memory_order_relaxed);
    return true;
  }

  static bool conforms(const BandProgram& band, uint64_t now, uint64_t units, bool alone) noexcept {
    uint64_t empty_at = band.empty_at.load(std::memory_order_relaxed);
    do {
      if (empty_at > now + band.burst) return false;
    } while (!replace(band, empty_at, charged(band, empty_at, now, units), alone));
    return true;
  }

  void charge_band(const BandProgram& band, uint64_t now, std::span<const uint32_t> lengths,
                   std::span<const BandProgram*> exceeded, bool alone) const noexcept {
    uint64_t before = band.empty_at.load(std::memory_order_relaxed);
    uint32_t over = 0;  // packets, by bit
    for (;;) {
      over = 0;
      uint64_t empty_at = before;
      for (size_t k = 0; k < lengths.size(); ++k) {
        if (empty_at > now + band.burst) {
          over |= 1u << k;
          continue;
        }
        empty_at = charged(band, empty_at, now, by_packets ? 1 : lengths[k]);
      }
      // While all exceed it nothing is written, and the line stays shared.
      if (empty_at == before) break;
      if (replace(band, before, empty_at, alone)) break;
    }
    for (; over != 0; over &= over - 1) {
      const BandProgram*& highest = exceeded[static_cast<size_t>(std::countr_zero(over))];
      if (highest == nullptr) highest = &band;
    }
  }
};

}  // namespace headrace::pipeline
