// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/sink.h"

namespace headrace::vnf {
namespace {

class Sink final : public Function {
 public:
  void process(uint16_t /*port*/, std::span<rte_mbuf*> packets, uint64_t /*now*/,
               Output& output) noexcept override {
    output.drop(packets, DropReason::discarded);
  }
};

}  // namespace

std::unique_ptr<Function> make_sink(ConfigReader& /*config*/, const FunctionContext& /*context*/) {
  return std::make_unique<Sink>();
}

}  // namespace headrace::vnf
