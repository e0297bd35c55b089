// SPDX-License-Identifier: Apache-2.0
// What every classifier offers: bulk look-up for workers, changes in place for the control thread.
//
// A classifier maps a packet's FlowKey to the index of the highest-priority rule that matches.
// The rules themselves live in the pipeline's own array; a classifier knows only index numbers. So
// it is small, and one rule can be replaced by another of the same match by swapping one number.
//
// Batch contract (lookup): `burst` is an array of at most kBurst FlowKey; `active` names the
// slots of it that are still at this table, in ascending order; results[i] belongs to active[i].
// All of active is looked up in one call, so that a classifier can overlap its cache misses. The
// words that its rules match must have been extracted. A packet without a matching rule gets the
// default index (the table-miss rule's), which is kMiss until set_default().
//
// Thread safety: any number of workers may be in lookup() while ONE control thread is in insert(),
// erase(), replace() or set_default(). A look-up that runs during a change sees each rule either as
// before or as after. Memory that a change unlinks is handed to the Defer function, which runs the
// deleter once no worker can hold a pointer into it (RCU); until then it stays intact.
//
// Equal priorities: if several rules of the same highest priority match, any of them is the result
// (OpenFlow 1.3.5, 5.3: "the selected flow entry is explicitly undefined").
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "match/fields/fields.h"
#include "match/fields/match.h"

namespace headrace::match {

/// Packets per burst; the same as pipeline::kBurst.
inline constexpr size_t kBurst = 32;

/// No rule matches, and there is no default.
inline constexpr uint32_t kMiss = ~0u;

/// Rule indices are below this: classifiers keep the top bit, and two values, for themselves.
inline constexpr uint32_t kIndexLimit = 0x7ffffffe;

/// Runs its argument when no worker can still see what it frees; see pipeline::Reclaimer.
using Defer = std::function<void(std::function<void()>)>;

/// Runs it at once: for tests, and for structures that no worker has seen.
inline void defer_not(const std::function<void()>& free) {
  free();
}

class Classifier {
 public:
  Classifier() = default;
  Classifier(const Classifier&) = delete;
  Classifier& operator=(const Classifier&) = delete;
  virtual ~Classifier() = default;

  /// Worker: see the batch contract above. One indirect call per burst. `differ`: the words in
  /// which packets of `active` may differ; if rules match none of them, one packet is looked up
  /// for all.
  virtual void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
                      WordSet differ) const noexcept = 0;

  /// Control: adds a rule. False if this structure can't hold it (nothing changed; plan anew). A
  /// rule of the same match and priority must not be there: replace() it. Two rules never share an
  /// index.
  [[nodiscard]] virtual bool insert(const Match& match, uint16_t priority, uint32_t index) = 0;

  /// Control: removes the rule of this very match and priority. False if it is not there.
  virtual bool erase(const Match& match, uint16_t priority) = 0;

  /// Control: gives the rule of this very match and priority another index, in one store where the
  /// structure allows it; never is there a moment without a rule. False if it is not there.
  virtual bool replace(const Match& match, uint16_t priority, uint32_t index) = 0;

  /// Control: another of the same content, which no worker has seen: a copy of its memory, not its
  /// rules one by one. Null where that is not worth having.
  [[nodiscard]] virtual std::unique_ptr<Classifier> clone() const { return nullptr; }

  /// Control: the result where no rule matches.
  void set_default(uint32_t index) { __atomic_store_n(&default_index_, index, __ATOMIC_RELEASE); }

  /// Control: true if rules have come for which another kind, or the same built anew, is better.
  [[nodiscard]] virtual bool outgrown() const { return false; }

  [[nodiscard]] virtual size_t size() const = 0;  ///< rules, the default not counted
  /// Structures that a look-up may have to search, one after the other.
  [[nodiscard]] virtual size_t masks() const { return 1; }
  [[nodiscard]] virtual size_t memory_bytes() const = 0;  ///< resident, of what workers read

 protected:
  [[nodiscard]] uint32_t default_index() const {
    return __atomic_load_n(&default_index_, __ATOMIC_RELAXED);
  }

 private:
  uint32_t default_index_{kMiss};
};

}  // namespace headrace::match
