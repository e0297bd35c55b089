// SPDX-License-Identifier: Apache-2.0
// Functions of two ports each, chained inside one process:
//
//   port 0 --- [stage 0] --- [stage 1] --- ... --- port 1
//
// A packet that a stage sends on its port 1 is input of the next stage's port 0, and vice versa, in
// the same round and without a copy. Stages are independent of this class. Each has its own drop
// counters.
//
// Thread safety: as for every function (function.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vnf/function.h"

namespace headrace::vnf {

class Stages final : public Function {
 public:
  struct Stage {
    std::string name;  ///< for counters, and to find the same stage on a reload
    std::unique_ptr<Function> function;
  };

  /// At least one stage. `inside` and `outside` are the process's ports at the ends of the chain.
  Stages(std::vector<Stage> stages, uint16_t inside, uint16_t outside);
  ~Stages() override;

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
               Output& output) noexcept override;
  uint64_t tick(uint64_t now, Output& output) noexcept override;
  void migrate_state(Function& previous) noexcept override;
  /// {"stages": {name: {"drops": {...}, ...the stage's own}}}
  [[nodiscard]] nlohmann::json counters() const override;

 private:
  class StageOutput;

  /// Passes packets that leave stage `index` by `port` to the adjacent stage or out of the process.
  void forward(size_t index, uint16_t port, std::span<rte_mbuf*> packets) noexcept;
  void flush_stages() noexcept;

  std::vector<Stage> stages_;
  std::vector<std::unique_ptr<StageOutput>> outputs_;  ///< by stage
  uint16_t inside_;
  uint16_t outside_;
  uint64_t now_{0};          ///< of the current call
  Output* output_{nullptr};  ///< of the current call
};

}  // namespace headrace::vnf
