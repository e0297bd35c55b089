// SPDX-License-Identifier: Apache-2.0
// The configuration of `qos`: classes, their meters and queues.
#pragma once

#include <rte_meter.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "vnf/function.h"
#include "vnf/state/scheduler.h"

namespace headrace::vnf {

struct QosMeter {
  enum class Yellow : uint8_t { pass, drop, remark };
  rte_meter_trtcm_params rates{};
  Yellow yellow{Yellow::pass};
  uint8_t dscp{0};  ///< for remark
};

struct QosClass {
  std::string name;
  SchedulerQueue queue;
  std::optional<QosMeter> meter;
};

struct QosConfig {
  std::vector<uint16_t> out;  ///< by input port
  SchedulerOptions scheduler;
  std::vector<QosClass> classes;
  std::array<uint8_t, 64> class_of_dscp{};
  uint8_t default_class{0};
};

QosConfig read_qos(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
