// SPDX-License-Identifier: Apache-2.0
// A network function: what headrace-vnf runs between its ports. One file per function; the
// registry (registry.h) names them.
//
// The worker (worker.h) polls the ports and calls process() with what came in; the function sends,
// keeps or drops every packet. It does not depend on devices: tests call process() with packets of
// their own and look at what it sent.
//
// A reload makes a new function from the new configuration, in the control thread; the worker then
// calls inherit() on it, between two rounds, so that learnt state (neighbors, sessions) goes over
// and no packet is lost.
//
// Thread safety: process(), tick() and inherit() are called by the worker only; counters() by the
// control thread at any time, so it reads Counters (counter.h) only.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "vnf/config_reader.h"
#include "vnf/net/address.h"
#include "vnf/output.h"

namespace headrace::vnf {

/// The properties of a port that functions use.
struct PortInfo {
  std::string name;
  MacAddress mac{};
};

/// What a function is made with. `pool` is for packets of its own (ARP, ICMP); null when the
/// configuration is only checked. `tsc_hz` is the rate of the clock that `now` comes from.
struct FunctionContext {
  std::vector<PortInfo> ports;
  rte_mempool* pool{nullptr};
  uint64_t tsc_hz{1};

  /// The index of the port with this name, or ports.size().
  [[nodiscard]] uint16_t port_index(std::string_view name) const;
};

class Function {
 public:
  Function() = default;
  virtual ~Function() = default;
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  /// Takes a burst that came in on `port` and disposes of every packet by `output`. `now` is the
  /// TSC at the start of the round.
  virtual void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                       Output& output) noexcept = 0;
  /// Called once per round, after the ports: for functions that make packets, keep some back, or
  /// have timeouts. Returns how many packets it handled; more than 0 makes the round a busy one.
  virtual uint64_t tick(uint64_t /*now*/, Output& /*output*/) noexcept { return 0; }
  /// Copies the state that the previous instance of the same function learned.
  virtual void inherit(Function& /*previous*/) noexcept {}
  /// The function's own counters, by name.
  [[nodiscard]] virtual nlohmann::json counters() const { return nlohmann::json::object(); }
};

/// Makes a function from the configuration's member `function`. Mistakes go to the reader; what is
/// returned after a mistake is not used (and may be null).
using FunctionFactory = std::unique_ptr<Function> (*)(ConfigReader& config,
                                                      const FunctionContext& context);

}  // namespace headrace::vnf
