// SPDX-License-Identifier: Apache-2.0
// A network function, which headrace-vnf runs between its ports. One file per function; the
// registry (registry.h) lists them.
//
// The worker (worker.h) polls the ports and calls process() with the received packets; the function
// sends, holds or drops each of them. It does not depend on devices: tests call process() with
// their own packets and check what it sent.
//
// A reload makes a new function from the new configuration, in the control thread; the worker then
// calls migrate_state() on it, between two rounds, so that learnt state (neighbors, sessions) is
// kept and no packet is lost.
//
// Thread safety: process(), tick() and migrate_state() are called by the worker only; counters() by
// the control thread at any time, so it may read only Counters (counter.h).
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

/// What a function is made with. `pool` is for packets that it makes (ARP, ICMP); null when the
/// configuration is only checked. `tsc_hz` is the rate of the clock of `now`.
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

  /// Processes a burst received on `port` and passes each packet to `output` or holds it. `now` is
  /// the TSC at the start of the round.
  virtual void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now,
                       Output& output) noexcept = 0;
  /// Called once per round, after the ports: for functions that make packets, hold packets, or have
  /// timeouts. Returns how many packets it handled; more than 0 makes the round a busy one.
  virtual uint64_t tick(uint64_t /*now*/, Output& /*output*/) noexcept { return 0; }
  /// Takes over the learnt state of the previous instance of the same function.
  virtual void migrate_state(Function& /*previous*/) noexcept {}
  /// The function's own counters, by name.
  [[nodiscard]] virtual nlohmann::json counters() const { return nlohmann::json::object(); }
};

/// Makes a function from the configuration's member `function`. Errors are added to the reader;
/// after an error the result is not used (and may be null).
using FunctionFactory = std::unique_ptr<Function> (*)(ConfigReader& config,
                                                      const FunctionContext& context);

}  // namespace headrace::vnf
