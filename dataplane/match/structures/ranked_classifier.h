// SPDX-License-Identifier: Apache-2.0
// A classifier that finds results with their priorities, so that it can be one part of another: of
// several parts' results the greatest is the table's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "match/structures/classifier.h"
#include "match/structures/ranked.h"

namespace headrace::match {

class RankedClassifier : public Classifier {
 public:
  void lookup(const FlowKey* burst, std::span<const uint8_t> active, uint32_t* results,
              WordSet differ) const noexcept final {
    const bool one_for_all = (used_ & differ) == 0;
    const size_t count = one_for_all ? 1 : active.size();
    Ranked best[kBurst] = {};
    rank(burst, active.first(count), best);
    const uint32_t otherwise = default_index();
    for (size_t i = 0; i < count; ++i) results[i] = best[i] != 0 ? index_of(best[i]) : otherwise;
    if (one_for_all) std::fill_n(results, active.size(), uint32_t{results[0]});
  }

  /// Worker: best[i], which belongs to active[i], becomes the greater of itself and the best result
  /// of a rule here that matches. Rules that are not better than best[i] need not be looked at.
  virtual void rank(const FlowKey* burst, std::span<const uint8_t> active,
                    Ranked* best) const noexcept = 0;

 protected:
  WordSet used_{0};  ///< all words that rules match
};

}  // namespace headrace::match
