// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/stages.h"

#include <algorithm>

namespace headrace::vnf {
namespace {

constexpr uint16_t kIn = 0;
constexpr uint16_t kOut = 1;

}  // namespace

/// A stage's output: flushed packets become the input of the adjacent stage.
class Stages::StageOutput final : public Output {
 public:
  StageOutput(Stages& stages, size_t index) : Output(2), stages_(stages), index_(index) {}

 private:
  uint16_t transmit(uint16_t port, std::span<rte_mbuf*> packets) noexcept override {
    stages_.forward(index_, port, packets);
    return static_cast<uint16_t>(packets.size());
  }
  Stages& stages_;
  size_t index_;
};

Stages::Stages(std::vector<Stage> stages, uint16_t inside, uint16_t outside)
    : stages_(std::move(stages)), inside_(inside), outside_(outside) {
  for (size_t i = 0; i < stages_.size(); ++i)
    outputs_.push_back(std::make_unique<StageOutput>(*this, i));
}

Stages::~Stages() = default;

void Stages::forward(size_t index, uint16_t port, std::span<rte_mbuf*> packets) noexcept {
  const bool outward = port == kOut;
  if (outward && index + 1 < stages_.size()) {
    stages_[index + 1].function->process(kIn, packets, now_, *outputs_[index + 1]);
  } else if (!outward && index > 0) {
    stages_[index - 1].function->process(kOut, packets, now_, *outputs_[index - 1]);
  } else {
    output_->send(outward ? outside_ : inside_, packets);
  }
}

void Stages::process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                     Output& output) noexcept {
  now_ = now;
  output_ = &output;
  if (port == inside_) {
    stages_.front().function->process(kIn, packets, now, *outputs_.front());
  } else if (port == outside_) {
    stages_.back().function->process(kOut, packets, now, *outputs_.back());
  } else {
    output.drop(packets, DropReason::no_route);
  }
}

/// Flushes all stages outward, then inward, twice, because a stage may send a packet back (ARP,
/// hairpins). What the second pass causes in turn is flushed in the next round.
void Stages::flush_stages() noexcept {
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i]->flush(kOut);
    for (size_t i = outputs_.size(); i-- > 0;) outputs_[i]->flush(kIn);
  }
}

uint64_t Stages::tick(uint64_t now, Output& output) noexcept {
  now_ = now;
  output_ = &output;
  flush_stages();
  uint64_t handled = 0;
  for (size_t i = 0; i < stages_.size(); ++i) {
    handled += stages_[i].function->tick(now, *outputs_[i]);
  }
  flush_stages();
  return handled;
}

void Stages::migrate_state(Function& previous) noexcept {
  auto& old = static_cast<Stages&>(previous).stages_;
  for (Stage& stage : stages_) {
    const auto it = std::find_if(old.begin(), old.end(),
                                 [&](const Stage& other) { return other.name == stage.name; });
    if (it != old.end()) stage.function->migrate_state(*it->function);
  }
}

nlohmann::json Stages::counters() const {
  nlohmann::json all;
  for (size_t i = 0; i < stages_.size(); ++i) {
    nlohmann::json counters = stages_[i].function->counters();
    nlohmann::json drops = nlohmann::json::object();
    for (size_t reason = 0; reason < kDropReasons; ++reason) {
      const uint64_t count = outputs_[i]->drops(static_cast<DropReason>(reason));
      if (count > 0) drops[std::string(kDropReasonNames[reason])] = count;
    }
    counters["drops"] = std::move(drops);
    all[stages_[i].name] = std::move(counters);
  }
  return {{"stages", std::move(all)}};
}

}  // namespace headrace::vnf
