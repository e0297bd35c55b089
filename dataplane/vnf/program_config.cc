// SPDX-License-Identifier: Apache-2.0
#include "vnf/program_config.h"

#include <fstream>
#include <iterator>
#include <set>

#include "vnf/yaml.h"

namespace headrace::vnf {
namespace {

PortConfig read_port(ConfigReader& config, size_t index) {
  PortConfig port;
  port.name = config.string("name");
  port.mac = config.optional_mac("mac");
  port.rx_descriptors = static_cast<uint16_t>(config.integer("rx_descriptors", 32, 32768, 1024));
  port.tx_descriptors = static_cast<uint16_t>(config.integer("tx_descriptors", 32, 32768, 1024));
  const auto devargs = config.string("devargs", "");
  const auto interface = config.string("interface", "");
  const bool has_shm = config.raw("shm") != nullptr;
  if (has_shm) {
    auto shm = config.optional_child("shm");
    port.shm = ShmPortConfig{.socket = shm.string("socket", ""),
                             .memory = shm.string("memory", ""),
                             .port = shm.string("port")};
    if (port.shm->socket.empty() == port.shm->memory.empty()) {
      shm.add_error("socket",
                    "give either `socket` (the switch's) or `memory` (in a VM: the file of the "
                    "ivshmem device's BAR 2)");
    }
    shm.finish();
  }
  if ((devargs.empty() ? 0 : 1) + (interface.empty() ? 0 : 1) + (has_shm ? 1 : 0) != 1) {
    config.add_error("devargs",
                     "give one of `devargs` (a DPDK device), `interface` (a kernel's) and `shm` (a "
                     "Headrace port)");
  }
  port.devargs =
      interface.empty() ? devargs : fmt::format("net_af_packet_vnf{},iface={}", index, interface);
  config.finish();
  return port;
}

}  // namespace

ProgramConfig read_program(ConfigReader& config) {
  ProgramConfig program;
  auto eal = config.optional_child("eal");
  program.file_prefix = eal.string("file_prefix", "");
  program.memory_mb = static_cast<uint32_t>(eal.integer("memory_mb", 32, 65536, 128));
  program.allow_hugepages = eal.choice("hugepages", {"auto", "off"}, 0) == 0;
  program.plugins = eal.strings("plugins");
  eal.finish();
  program.cpu = static_cast<unsigned>(config.integer("cpu", 0, 1023, 0));
  program.idle = static_cast<Idle>(config.choice("idle", {"poll", "yield", "sleep"}, 1));
  program.sleep = std::chrono::microseconds(config.integer("sleep_us", 1, 1'000'000, 50));
  program.burst = static_cast<uint16_t>(config.integer("burst", 1, kMaxRxBurst, kDefaultRxBurst));
  std::set<std::string> names;
  size_t index = 0;
  for (auto& entry : config.children("ports")) {
    program.ports.push_back(read_port(entry, index++));
    if (!names.insert(program.ports.back().name).second) {
      entry.add_error("name", "two ports have this name");
    }
  }
  if (program.ports.empty()) config.add_error("ports", "a function needs at least one port");
  if (const Json* function = config.raw("function")) program.function = *function;
  config.finish();
  return program;
}

Result<Json> read_config_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail("{}: cannot be read", path);
  if (path.ends_with(".yaml") || path.ends_with(".yml")) {
    const std::string text(std::istreambuf_iterator<char>(file), {});
    auto json = json_of_yaml(text);
    if (!json) return fail("{}: {}", path, json.error().message);
    return json;
  }
  try {
    return Json::parse(file);
  } catch (const Json::parse_error& error) {
    return fail("{}: {}", path, error.what());
  }
}

}  // namespace headrace::vnf
