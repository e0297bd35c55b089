// SPDX-License-Identifier: Apache-2.0
// Any rules at all: one hash table per mask ("tuple"), searched in order of priority.
//
// A packet is looked up in the tuples by descending maximum priority; as soon as what it found is
// at least as good as anything that the remaining tuples hold, it is done. The burst shrinks from
// tuple to tuple, and each tuple's look-up is bulk and prefetched. What is not found in the first
// few goes through a filter (match/structures/tuple_filter.h) and on to those tuples alone that can
// hold a rule for it. The time depends on the rules, never on the traffic's history, so traffic
// cannot make it worse than the rules allow (unlike a flow cache).
//
// Change: rules go into their tuple in place. The list of tuples is small and copied: it is
// published anew when a mask comes or goes or a tuple's maximum changes. A rule that raises its
// tuple's maximum is in the hash before the list says so: until then a reader may end before it, as
// if it came later.
//
// Source: Srinivasan, Suri, Varghese, "Packet classification using tuple space search", SIGCOMM
// 1999; the order by priority is from OVS's classifier.
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "match/structures/classifier.h"
#include "match/structures/hash_table.h"
#include "match/structures/tuple_filter.h"

namespace headrace::match {

class TupleSpace final : public Classifier {
 public:
  explicit TupleSpace(Defer defer);
  ~TupleSpace() override;

  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept override;
  /// Takes every rule.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;
  [[nodiscard]] std::unique_ptr<Classifier> clone() const override;

  [[nodiscard]] size_t size() const override { return size_; }
  [[nodiscard]] size_t memory_bytes() const override;
  [[nodiscard]] size_t masks() const override { return tuples_.size(); }

 private:
  /// The number of a tuple that the filter does not know: it is always searched.
  static constexpr uint16_t kUnnumbered = 0xffff;

  struct Tuple {
    std::unique_ptr<HashTable> table;
    TupleProfile profile;
    uint16_t number{kUnnumbered};             ///< in the filter
    std::map<uint16_t, uint32_t> priorities;  ///< how many rules have it
    [[nodiscard]] uint16_t max_priority() const { return priorities.rbegin()->first; }
  };
  struct Listed {
    const HashTable* table;
    uint16_t max_priority;
    uint16_t number;
  };
  /// What readers see: tables by descending maximum priority; a filter if there are enough.
  struct List {
    std::vector<Listed> tuples;
    std::shared_ptr<const TupleFilter> filter;
    std::vector<uint16_t> places{};  ///< in `tuples`, by number in the filter
    size_t unnumbered{0};            ///< of `tuples`
  };

  static void search_others(const List& list, const FlowKey* burst, std::span<const uint8_t> active,
                            Ranked* results, Ranked ceiling) noexcept;
  static void search_filtered(const List& list, size_t first, const FlowKey* burst,
                              std::span<uint8_t> searching, Ranked* best) noexcept;

  [[nodiscard]] static size_t places_of(const List& list, const TupleFilter::Set& set,
                                        std::span<uint16_t> places) noexcept;

  [[nodiscard]] std::vector<Tuple>::iterator find(const Match& match);
  void number(Tuple& tuple);
  void publish();

  Defer defer_;
  std::vector<Tuple> tuples_;
  std::shared_ptr<TupleFilter> filter_;  ///< null: too few tuples
  std::atomic<List*> list_{nullptr};
  size_t size_{0};
};

}  // namespace headrace::match
