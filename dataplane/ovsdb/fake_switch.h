// SPDX-License-Identifier: Apache-2.0
// A switch for tests: records every call as text, keeps the objects that exist, and fails as
// configured.
#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ovsdb/switch_control.h"

namespace headrace::ovsdb {

class FakeSwitch : public SwitchControl {
 public:
  std::vector<std::string> calls;
  std::set<std::string> failing_ports;     ///< add_port fails for these
  std::set<std::string> rebuilding_ports;  ///< update_port requires recreation for these
  std::set<std::string> connected_targets;
  std::map<std::string, LsiConfig> lsis;
  std::map<std::string, PortSpec> ports;
  std::map<std::string, std::vector<ControllerSpec>> controllers;
  std::map<std::string, std::vector<pipeline::MirrorConfig>> mirrors;
  WorkerConfig workers;

  [[nodiscard]] SwitchInfo info() const override {
    return {.version = "headrace test",
            .dpdk_version = "DPDK 22.11.0",
            .dpdk_initialized = true,
            .port_types = {"dpdk", "internal", "memif", "patch"}};
  }
  Result<> set_workers(const WorkerConfig& config) override {
    workers = config;
    calls.emplace_back("set_workers");
    return {};
  }
  Result<> create_lsi(const LsiConfig& config) override {
    calls.push_back("create_lsi " + config.name);
    lsis[config.name] = config;
    return {};
  }
  Result<> update_lsi(const LsiConfig& config) override {
    calls.push_back("update_lsi " + config.name);
    lsis[config.name] = config;
    return {};
  }
  void destroy_lsi(std::string_view lsi) override {
    calls.push_back(fmt::format("destroy_lsi {}", lsi));
    lsis.erase(std::string(lsi));
    controllers.erase(std::string(lsi));
  }
  Result<> add_port(std::string_view lsi, const PortSpec& spec) override {
    calls.push_back(fmt::format("add_port {} {} {} {}", lsi, spec.name, spec.type, spec.number));
    if (failing_ports.contains(spec.name)) {
      return fail("{}: no such device", spec.name);
    }
    ports[spec.name] = spec;
    return {};
  }
  Result<bool> update_port(std::string_view lsi, const PortSpec& spec) override {
    calls.push_back(fmt::format("update_port {} {}", lsi, spec.name));
    if (rebuilding_ports.contains(spec.name)) {
      return false;
    }
    ports[spec.name] = spec;
    return true;
  }
  void remove_port(std::string_view lsi, std::string_view port) override {
    calls.push_back(fmt::format("remove_port {} {}", lsi, port));
    ports.erase(std::string(port));
  }
  Result<> connect_patch(std::string_view lsi_a, std::string_view port_a, std::string_view lsi_b,
                         std::string_view port_b) override {
    calls.push_back(fmt::format("connect_patch {} {} {} {}", lsi_a, port_a, lsi_b, port_b));
    return {};
  }
  void disconnect_patch(std::string_view lsi, std::string_view port) override {
    calls.push_back(fmt::format("disconnect_patch {} {}", lsi, port));
  }
  void set_controllers(std::string_view lsi, const std::vector<ControllerSpec>& specs) override {
    calls.push_back(fmt::format("set_controllers {} {}", lsi, specs.size()));
    controllers[std::string(lsi)] = specs;
  }
  Result<> set_mirrors(std::string_view lsi,
                       const std::vector<pipeline::MirrorConfig>& configs) override {
    calls.push_back(fmt::format("set_mirrors {} {}", lsi, configs.size()));
    mirrors[std::string(lsi)] = configs;
    return {};
  }
  [[nodiscard]] std::map<std::string, pipeline::MirrorStats> mirror_statistics(
      std::string_view lsi) const override {
    std::map<std::string, pipeline::MirrorStats> all;
    if (const auto it = mirrors.find(std::string(lsi)); it != mirrors.end()) {
      for (const auto& config : it->second) {
        all[config.id] = {.packets = 3, .bytes = 180};
      }
    }
    return all;
  }
  void set_tls(const TlsFiles& files) override { tls = files; }
  [[nodiscard]] PortState port_state(std::string_view /*lsi*/,
                                     std::string_view port) const override {
    PortState state;
    state.admin_up = true;
    state.link_up = link_up;
    state.mtu = ports.at(std::string(port)).mtu.value_or(1500);
    state.mac = "02:00:00:00:00:01";
    state.status = {{"driver_name", "net_fake"}};
    return state;
  }
  [[nodiscard]] std::map<std::string, int64_t> port_statistics(
      std::string_view /*lsi*/, std::string_view /*port*/) const override {
    return {{"rx_packets", 7}, {"tx_packets", 9}};
  }
  [[nodiscard]] std::map<std::string, ControllerState> controller_states(
      std::string_view lsi) const override {
    std::map<std::string, ControllerState> states;
    if (const auto it = controllers.find(std::string(lsi)); it != controllers.end()) {
      for (const auto& spec : it->second) {
        auto& state = states[spec.target];
        state.is_connected = connected_targets.contains(spec.target);
        if (state.is_connected) {
          state.role = "master";
          state.status = {{"state", "ACTIVE"}};
        }
      }
    }
    return states;
  }

  bool link_up{true};
  TlsFiles tls;
};

}  // namespace headrace::ovsdb
