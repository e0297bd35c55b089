// SPDX-License-Identifier: Apache-2.0
// A port of the generator: one ethdev with one receive and one transmit queue, made from DPDK vdev
// arguments and gone with the object.
//
// Thread safety: made, asked and destroyed by the control thread while no trial uses it; the worker
// uses id() and pool() during a trial.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "eal/mempool.h"

namespace headrace::traffic {

struct PortOptions {
  std::string name;     ///< the generator's name for it
  std::string devargs;  ///< "net_memif0,role=client,socket=/run/x.sock": a vdev, as EAL's --vdev
  std::string mac;      ///< empty: the device's own
  uint16_t descriptors{1024};
  uint16_t max_frame{1518};  ///< with FCS; sets the buffers' size and the MTU
};

/// The value of `key` in "name,key=value,...", or "".
std::string devarg(const std::string& devargs, const std::string& key);

class TrafficPort {
 public:
  /// Makes, configures and starts the device. Fails naming the member at fault ("/devargs: ...").
  static Result<std::unique_ptr<TrafficPort>> open(const PortOptions& options);
  /// Stops and removes the device, then its buffers.
  ~TrafficPort();
  TrafficPort(const TrafficPort&) = delete;
  TrafficPort& operator=(const TrafficPort&) = delete;

  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] uint16_t id() const { return id_; }
  [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }
  [[nodiscard]] uint16_t max_frame() const { return options_.max_frame; }
  [[nodiscard]] bool link_up() const;
  /// {"name","devargs","mac","link","device":{rx/tx counters of the driver}}
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  explicit TrafficPort(PortOptions options) : options_(std::move(options)) {}
  Result<> attach();
  Result<> configure();

  PortOptions options_;
  std::string device_;  ///< the vdev's name; set once it exists
  uint16_t id_{0};
  runtime::Mempool pool_;
};

}  // namespace headrace::traffic
