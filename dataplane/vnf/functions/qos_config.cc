// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/qos_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "vnf/functions/pairs.h"

namespace headrace::vnf {
namespace {

constexpr uint64_t kMaxBps = 400'000'000'000;
constexpr uint8_t kNoClass = UINT8_MAX;

QosMeter read_meter(ConfigReader& config) {
  QosMeter meter;
  meter.rates.cir = config.integer("cir_bps", 8, kMaxBps) / 8;
  meter.rates.pir = config.integer("pir_bps", 8, kMaxBps) / 8;
  meter.rates.cbs = config.integer("cbs", 64, uint64_t{1} << 32);
  meter.rates.pbs = config.integer("pbs", 64, uint64_t{1} << 32);
  if (meter.rates.pir < meter.rates.cir) config.add_error("pir_bps", "less than cir_bps");
  const Json* yellow = config.raw("yellow");
  const auto word =
      yellow != nullptr && yellow->is_string() ? yellow->get<std::string>() : std::string{};
  if (yellow == nullptr || word == "pass") {
    meter.yellow = QosMeter::Yellow::pass;
  } else if (word == "drop") {
    meter.yellow = QosMeter::Yellow::drop;
  } else if (yellow->is_number_unsigned() && yellow->get<uint64_t>() < 64) {
    meter.yellow = QosMeter::Yellow::remark;
    meter.dscp = yellow->get<uint8_t>();
  } else {
    config.add_error("yellow", yellow->dump() + " is not pass, drop or a DSCP");
  }
  config.finish();
  return meter;
}

void read_dscps(ConfigReader& entry, uint8_t index, QosConfig& qos) {
  const Json* list = entry.raw("dscp");
  if (list == nullptr) return;
  if (!list->is_array()) {
    entry.add_error("dscp", "not a list");
    return;
  }
  for (const Json& value : *list) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > 63) {
      entry.add_error("dscp", value.dump() + " is not 0 to 63");
      continue;
    }
    uint8_t& owner = qos.class_of_dscp[value.get<size_t>()];
    if (owner != kNoClass) entry.add_error("dscp", value.dump() + " is another class's");
    owner = index;
  }
}

void read_queue(ConfigReader& entry, QosConfig& qos, QosClass& cls, uint8_t& weighted) {
  if (entry.has("priority") == entry.has("weight")) {
    entry.add_error("priority", "give either a strict priority or a weight");
    return;
  }
  if (entry.has("priority")) {
    cls.queue.traffic_class =
        static_cast<uint8_t>(entry.integer("priority", 0, SchedulerQueue::kPriorities - 1));
    return;
  }
  const auto weight = static_cast<uint8_t>(entry.integer("weight", 1, 255));
  if (weighted == SchedulerQueue::kWeighted) {
    entry.add_error("weight", "at most four classes may have one");
    return;
  }
  cls.queue.queue = weighted;
  qos.scheduler.weights[weighted++] = weight;
}

}  // namespace

QosConfig read_qos(ConfigReader& config, const FunctionContext& context) {
  QosConfig qos;
  qos.out = read_pairs(config, context);
  qos.scheduler.rate_bps = config.integer("rate_bps", 80'000, kMaxBps);
  qos.scheduler.queue_packets =
      static_cast<uint16_t>(config.integer("queue_packets", 64, 8192, 256));
  if (!std::has_single_bit(qos.scheduler.queue_packets)) {
    config.add_error("queue_packets", "not a power of two");
  }
  qos.scheduler.weights.fill(1);
  qos.class_of_dscp.fill(kNoClass);
  uint8_t weighted = 0;
  for (auto& entry : config.children("classes")) {
    QosClass cls{.name = entry.string("name"), .queue = {}, .meter = std::nullopt};
    read_dscps(entry, static_cast<uint8_t>(qos.classes.size()), qos);
    read_queue(entry, qos, cls, weighted);
    if (entry.has("meter")) {
      auto meter = entry.child("meter");
      cls.meter = read_meter(meter);
    }
    entry.finish();
    qos.classes.push_back(std::move(cls));
  }
  if (qos.classes.empty() || qos.classes.size() > 16) {
    config.add_error("classes", "give 1 to 16 of them");
    return qos;
  }
  qos.default_class = static_cast<uint8_t>(qos.classes.size() - 1);
  if (config.has("default")) {
    const auto name = config.string("default");
    const auto it = std::find_if(qos.classes.begin(), qos.classes.end(),
                                 [&](const QosClass& cls) { return cls.name == name; });
    if (it == qos.classes.end()) config.add_error("default", name + " is no class");
    qos.default_class = static_cast<uint8_t>(it - qos.classes.begin());
  }
  std::replace(qos.class_of_dscp.begin(), qos.class_of_dscp.end(), kNoClass, qos.default_class);
  return qos;
}

}  // namespace headrace::vnf
