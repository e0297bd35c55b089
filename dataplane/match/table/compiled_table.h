// SPDX-License-Identifier: Apache-2.0
// A flow table's classifier, whichever structure it is today.
//
// CompiledTable holds the current classifier behind one atomic pointer. Rule changes go in place
// where the structure takes them; where it can't (a second mask in a hash, a ninth rule in a direct
// table), the table is planned anew from all its rules, built aside and published, and the old
// structure is freed once no worker can see it. So the pipeline never asks which structure it has.
//
// Planning a large table anew can take seconds. A table with more rules than its rebuild limit
// leaves that to its owner: a change that needs it returns false, and the owner makes another
// CompiledTable, fills it by rebuild() wherever it likes, for no worker sees it, and publishes it
// whole. The old one goes on serving what it has.
//
// Rules stay in the pipeline's own array; for a rebuild the table asks for them through RuleSource.
// When insert() is called the source must already enumerate the new rule, when erase() is called no
// longer the old one. The rule's entry in the pipeline's array must be complete before insert() or
// replace(): a worker may look its index up at once. After erase() a worker may still see the index
// until the next grace period.
//
// Thread safety: as match/structures/classifier.h; all but lookup() belongs to the one control
// thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "match/structures/classifier.h"
#include "match/table/planner.h"

namespace headrace::match {

class CompiledTable {
 public:
  using RuleVisitor = std::function<void(const Match& match, uint16_t priority, uint32_t index)>;
  /// Calls the visitor for every rule of the table, the match-all rule included, in any order. The
  /// matches must stay where they are until the source returns.
  using RuleSource = std::function<void(const RuleVisitor&)>;

  /// The table starts empty: the source is not asked before the first change. `miss` is what a
  /// packet gets that no rule matches.
  CompiledTable(Defer defer, RuleSource rules, uint32_t miss = kMiss,
                size_t rebuild_limit = SIZE_MAX);
  CompiledTable(const CompiledTable&) = delete;
  CompiledTable& operator=(const CompiledTable&) = delete;
  ~CompiledTable();  ///< no worker may use the table any more

  /// Worker: the batch contract of Classifier::lookup().
  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept {
    current_.load(std::memory_order_acquire)->lookup(burst, active, results, differ);
  }

  // Changes. False: another table is to be built from all rules. Until it serves, workers may see
  // this change or not, and all before it; further ones are of no use.

  /// Control: adds a rule, in place or by a rebuild.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index);
  /// Control: removes the rule of this match and priority.
  [[nodiscard]] bool erase(const Match& match, uint16_t priority);
  /// Control: gives the rule of this match and priority another index.
  [[nodiscard]] bool replace(const Match& match, uint16_t priority, uint32_t index);
  /// Control: plans and builds from scratch; once, after many changes of the source that were not
  /// announced one by one (a bundle, replace-flows).
  void rebuild();

  /// Control: another of the same content, which no worker has seen; null if it is better built
  /// from the rules.
  [[nodiscard]] std::unique_ptr<CompiledTable> clone() const;

  /// The structure's name: "direct", "hash-word", "hash", "prefix", ...
  [[nodiscard]] std::string_view structure() const { return plan_.kind->name; }
  /// Why this structure, in words.
  [[nodiscard]] const std::string& reason() const { return plan_.reason; }
  /// Structures that a look-up may have to search: the masks of a tuple space, else 1.
  [[nodiscard]] size_t masks() const { return classifier().masks(); }
  [[nodiscard]] size_t memory_bytes() const { return classifier().memory_bytes(); }
  /// Times that the table was planned and built from all its rules.
  [[nodiscard]] uint64_t rebuilds() const { return rebuilds_; }
  /// The words that rules match, or matched at some time since the last rebuild: what the extractor
  /// must fill.
  [[nodiscard]] WordSet words() const { return plan_.words; }

 private:
  [[nodiscard]] Classifier& classifier() const { return *current_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_default(const Match& match, uint16_t priority) const;
  /// rebuild(), if that is not left to the owner.
  [[nodiscard]] bool may_rebuild();
  [[nodiscard]] bool insert_in_place(const Match& match, uint16_t priority, uint32_t index);

  Defer defer_;
  RuleSource rules_;
  uint32_t miss_;
  size_t rebuild_limit_;
  Plan plan_;
  std::atomic<Classifier*> current_{nullptr};
  size_t peak_size_{0};      ///< since the last rebuild
  size_t planned_masks_{0};  ///< at the last rebuild
  size_t planned_size_{0};   ///< at the last rebuild
  uint64_t rebuilds_{0};
};

}  // namespace headrace::match
