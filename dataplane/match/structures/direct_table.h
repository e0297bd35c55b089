// SPDX-License-Identifier: Apache-2.0
// A few rules of any masks, compared one by one.
//
// All rules are compared with every packet, without a branch: over the union of the words that any
// rule matches, the difference of masked packet and value is gathered per rule; rules lie beside
// each other, so that one vector instruction compares two. The first rule
// without a difference, in order of priority, is the result. For a handful of rules this beats any
// hash, and its time does not depend on the traffic.
//
// Change: a new block of rules is built and published; it is a few hundred octets.
//
// Thread safety: as match/structures/classifier.h.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "match/structures/classifier.h"

namespace headrace::match {

class DirectTable final : public Classifier {
 public:
  static constexpr size_t kRules = 8;

  explicit DirectTable(Defer defer);
  ~DirectTable() override;

  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept override;
  /// False when the table is full.
  [[nodiscard]] bool insert(const Match& match, uint16_t priority, uint32_t index) override;
  bool erase(const Match& match, uint16_t priority) override;
  bool replace(const Match& match, uint16_t priority, uint32_t index) override;

  [[nodiscard]] size_t size() const override { return rules_.size(); }
  [[nodiscard]] size_t memory_bytes() const override;

 private:
  struct Rule {
    FlowKey value;
    FlowKey mask;
    uint16_t priority;
    uint32_t index;
  };
  struct Compiled;

  [[nodiscard]] std::vector<Rule>::iterator find(const Match& match, uint16_t priority);
  void publish();

  Defer defer_;
  std::vector<Rule> rules_;  ///< the control thread's, by descending priority
  std::atomic<Compiled*> compiled_{nullptr};
};

/// Two words side by side.
using Pair = uint64_t __attribute__((vector_size(16)));

/// Bit r set: words[r] is 0.
unsigned zero_lanes(Pair words) noexcept;
/// Its portable variant.
inline unsigned zero_lanes_portable(Pair words) noexcept {
  return unsigned{words[0] == 0} | unsigned{words[1] == 0} << 1;
}

}  // namespace headrace::match
