// SPDX-License-Identifier: Apache-2.0
// The configuration file of headrace-vnf, except for the function's own part. JSON, or YAML if the
// file's name ends in .yaml or .yml.
//
//   {"eal": {"file_prefix": "vnf1", "memory_mb": 128, "hugepages": "auto" | "off",
//            "plugins": []},
//    "cpu": 0,
//    "idle": "poll" | "yield" | "sleep", "sleep_us": 50, "burst": 32,
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
  poll,   ///< starts the next round at once, on a dedicated CPU
  yield,  ///< yields the CPU to other threads
  sleep,  ///< sleeps, after a number of rounds without packets
};

/// Packets that one poll of a port takes: by default and at most.
inline constexpr uint16_t kDefaultRxBurst = 32;
inline constexpr uint16_t kMaxRxBurst = 64;

/// A port of a Headrace switch in shared memory (shm/headrace_port.h).
struct ShmPortConfig {
  std::string socket;  ///< of the group; in a VM `memory` instead
  std::string memory;  ///< the file of the ivshmem device's BAR 2, the group's region
  std::string port;    ///< its name in the switch
  bool operator==(const ShmPortConfig&) const = default;
};

struct PortConfig {
  std::string name;
  std::string devargs;  ///< as rte_dev_probe() takes them; made from `interface` if that is given
  std::optional<ShmPortConfig> shm;  ///< excludes devargs
  std::optional<MacAddress> mac;
  uint16_t rx_descriptors{1024};
  uint16_t tx_descriptors{1024};
  bool operator==(const PortConfig&) const = default;
};

struct ProgramConfig {
  std::string file_prefix;  ///< "" = a unique one
  uint32_t memory_mb{128};
  bool allow_hugepages{true};
  std::vector<std::string> plugins;  ///< further DPDK drivers to load, by path
  unsigned cpu{0};
  Idle idle{Idle::yield};
  std::chrono::microseconds sleep{50};
  uint16_t burst{kDefaultRxBurst};
  std::vector<PortConfig> ports;
  Json function = Json::object();
};

/// Reads the whole file's object; errors are added to the reader.
ProgramConfig read_program(ConfigReader& config);

/// Parses a file as YAML or JSON, by its suffix. Fails with the file's name and the place of a
/// syntax error.
Result<Json> read_config_file(const std::string& path);

}  // namespace headrace::vnf
