// SPDX-License-Identifier: Apache-2.0
// The configuration file of headrace-vnf: all but what the function itself understands. JSON, or
// the same in YAML if the file's name ends in .yaml or .yml.
//
//   {"eal": {"file_prefix": "vnf1", "memory_mb": 128, "hugepages": "auto" | "off",
//            "plugins": []},
//    "cpu": 0,
//    "idle": "poll" | "yield" | "sleep", "sleep_us": 50,
//    "ports": [{"name": "0", "devargs": "net_virtio_user0,path=/run/a.sock,server=1",
//               "mac": "02:00:00:00:00:01", "rx_descriptors": 1024, "tx_descriptors": 1024},
//              {"name": "1", "interface": "veth0"},
//              {"name": "2", "shm": {"socket": "/run/graph.shm", "port": "g1p2"}},
//              {"name": "3", "shm": {"memory": "/sys/bus/pci/devices/0000:00:04.0/resource2",
//                                    "port": "g1p3"}}],
//    "function": {...}}
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "vnf/config_reader.h"

namespace headrace::vnf {

/// What the worker does after a round that found no packet.
enum class Idle : uint8_t {
  poll,   ///< the next round at once: the CPU is its own
  yield,  ///< lets others run that want this CPU
  sleep,  ///< sleeps, after a while without packets
};

/// A port of a Headrace switch, by shared memory (shm/headrace_port.h).
struct ShmPortConfig {
  std::string socket;  ///< the group's; or, in a VM,
  std::string memory;  ///< the file of the ivshmem device's BAR 2, which is the group's region
  std::string port;    ///< its name at the switch
  bool operator==(const ShmPortConfig&) const = default;
};

struct PortConfig {
  std::string name;
  std::string devargs;  ///< as rte_dev_probe() takes them; made from `interface` if that is given
  std::optional<ShmPortConfig> shm;  ///< then there are no devargs
  std::optional<MacAddress> mac;
  uint16_t rx_descriptors{1024};
  uint16_t tx_descriptors{1024};
  bool operator==(const PortConfig&) const = default;
};

struct ProgramConfig {
  std::string file_prefix;  ///< "" = one of its own
  uint32_t memory_mb{128};
  bool allow_hugepages{true};
  std::vector<std::string> plugins;  ///< further DPDK drivers to load, by path
  unsigned cpu{0};
  Idle idle{Idle::yield};
  std::chrono::microseconds sleep{50};
  std::vector<PortConfig> ports;
  Json function = Json::object();
};

/// Reads the whole file's object; mistakes go to the reader.
ProgramConfig read_program(ConfigReader& config);

/// Parses a file of JSON or, by its name, of YAML. Fails with the file's name and the place of a
/// syntax error.
Result<Json> read_config_file(const std::string& path);

}  // namespace headrace::vnf
