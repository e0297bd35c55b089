// SPDX-License-Identifier: Apache-2.0
// Functions of two ports each, joined in a row inside one process:
//
//   port 0 --- [stage 0] --- [stage 1] --- ... --- port 1
//
// What a stage sends out of its port 1 is the next stage's input on port 0, and the other way
// round, in the same round and without a copy; a stage does not depend on it. Each stage has its
// own drop counters.
//
// Thread safety: as of every function (function.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vnf/function.h"

namespace headrace::vnf {

class Stages final : public Function {
 public:
  struct Stage {
    std::string name;  ///< for counters, and to find the heir on a reload
    std::unique_ptr<Function> function;
  };

  /// At least one stage. `inside` and `outside` are the ports of the process at the row's ends.
  Stages(std::vector<Stage> stages, uint16_t inside, uint16_t outside);
  ~Stages() override;

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override;
  uint64_t tick(uint64_t now, Output& output) noexcept override;
  void inherit(Function& previous) noexcept override;
  /// {"stages": {name: {"drops": {...}, ...the stage's own}}}
  [[nodiscard]] nlohmann::json counters() const override;

 private:
  class Joint;

  /// Passes packets that leave stage `index` by `port` on.
  void pass_on(size_t index, uint16_t port, std::span<rte_mbuf*> packets) noexcept;
  void settle() noexcept;

  std::vector<Stage> stages_;
  std::vector<std::unique_ptr<Joint>> joints_;  ///< a stage's output
  uint16_t inside_;
  uint16_t outside_;
  uint64_t now_{0};          ///< of the call under way
  Output* output_{nullptr};  ///< of the call under way
};

}  // namespace headrace::vnf
