// SPDX-License-Identifier: Apache-2.0
// Ports of type `system`: a kernel interface that exists (a veth end, a NIC without DPDK driver).
//
// There are two ways to its frames, and options:mode chooses:
//
//   af_xdp     an XDP program takes every frame off the driver's queue into memory that we share
//              with the kernel (copy mode): the kernel's own stack receives none of them any more.
//   af_packet  packet sockets (kernel/packet_socket.h): the kernel's stack still receives from the
//              interface, and checksums and segments that a peer leaves to its device are carried.
//   auto       (the default) af_xdp for interfaces with hardware behind them, where it can be had,
//              else af_packet. Virtual interfaces get af_packet, because what their peers leave to
//              "hardware" is not in the frames that XDP sees: VLAN tags would be lost without a
//              trace, and checksums are missing.
//
// status:mode says which it is, status:mode_reason why.
#include <net/if.h>

#include <filesystem>

#include "port/kinds.h"

namespace headrace::port {
namespace {

/// What one AF_XDP buffer of 4 KiB holds beside headrooms.
constexpr uint32_t kXdpMaxMtu = 3000;

EthdevRequest common(const PortConfig& config, uint32_t queues) {
  EthdevRequest request;
  request.rx_queues = request.tx_queues = static_cast<uint16_t>(queues);
  request.tx_queue_per_worker = false;  // as many transmit as receive queues
  request.kernel_interface = config.name;
  return request;
}

EthdevRequest by_xdp(const PortConfig& config, uint32_t queues, std::string reason) {
  EthdevRequest request = common(config, queues);
  request.devargs = fmt::format("{},iface={},start_queue=0,queue_count={},force_copy=1",
                                vdev_name("net_af_xdp", config.name), config.name, queues);
  request.status = {{"mode", "af_xdp"}, {"mode_reason", std::move(reason)}};
  return request;
}

bool has_hardware(const std::string& interface) {
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/net/" + interface + "/device", ignored);
}

}  // namespace

Result<SystemChoice> choose_system_mode(const PortConfig& config, Options& options) {
  if (config.name.find(',') != std::string::npos || ::if_nametoindex(config.name.c_str()) == 0) {
    return fail("{}: there is no kernel interface of that name", config.name);
  }
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 16);
  if (!queues) return tl::unexpected(queues.error());
  const Result<std::string> mode = options.plain("mode", "auto");
  if (!mode) return tl::unexpected(mode.error());
  if (*mode != "auto" && *mode != "af_xdp" && *mode != "af_packet") {
    return fail("{}: options:mode is '{}': it must be auto, af_xdp or af_packet", config.name,
                *mode);
  }
  if (*mode == "af_packet") return SystemChoice{.reason = "asked for"};
  const uint32_t mtu = config.mtu.value_or(kDefaultMtu);
  if (*mode == "af_xdp") {
    if (mtu > kXdpMaxMtu) {
      return fail("{}: MTU {} with options:mode=af_xdp: at most {} is possible; use af_packet",
                  config.name, mtu, kXdpMaxMtu);
    }
    return SystemChoice{.xdp = by_xdp(config, *queues, "asked for"), .reason = {}};
  }
  if (!has_hardware(config.name)) return SystemChoice{.reason = "virtual interface"};
  if (mtu > kXdpMaxMtu) return SystemChoice{.reason = "MTU too large for AF_XDP"};
  return SystemChoice{.xdp = by_xdp(config, *queues, "the kernel and the device allow it"),
                      .or_packet_socket = true,
                      .reason = "AF_XDP is refused; the log says why"};
}

}  // namespace headrace::port
