// SPDX-License-Identifier: Apache-2.0
// A port of the switch: a device with a data path, opened from the words of an OVSDB interface.
//
// What kinds there are, and what is behind each (type, options and status use OVS's words):
//
//   dpdk                  any DPDK device: options:dpdk-devargs is a PCI address or a vdev
//   memif                 our own end-point (memif/): options socket, id, role, secret, ...
//   dpdkvhostuser         a guest by librte_vhost (vhost/), we listen at <rundir>/<port name>
//   dpdkvhostuserclient   the same, we connect (and reconnect) to options:vhost-server-path
//   internal, tap         a tap device (kernel/): a kernel interface named like the port
//   system                packet sockets (kernel/) or net_af_xdp: the kernel interface named like
//                         the port
//   shm                   a VNF by shared memory of its trust group, options:group
//
// The other kinds are ethdevs, made by hot-plug and removed by the destructor; a kind's file turns
// options into devargs and an EthdevRequest. `patch` ports have no device: the pipeline joins them
// itself.
//
// Thread safety: control thread only, but for io(), which workers use as port_io.h says.
#pragma once

#include <rte_mempool.h>

#include <array>
#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "packet/mac_address.h"
#include "pipeline/terms/port_io.h"
#include "pipeline/terms/reclaimer.h"

namespace headrace::port {

using StringMap = std::map<std::string, std::string>;
using packet::MacAddress;

class DirectEnd;

inline constexpr uint32_t kDefaultMtu = 1500;

/// How a port is to be.
struct PortConfig {
  std::string name;            ///< unique in the process
  std::string type;            ///< one of port_types()
  StringMap options{};         ///< the interface's column `options`
  rte_mempool* pool{nullptr};  ///< buffers for reception; outlives the port
  /// The same for a device on this NUMA node; empty: `pool`.
  std::function<rte_mempool*(int node)> pool_on_node{};
  std::string rundir{"."};          ///< where sockets that we name ourselves go
  std::optional<uint32_t> mtu{};    ///< bytes of IP; absent: the device's own
  std::optional<MacAddress> mac{};  ///< absent: the device's own
  uint16_t tx_queues_wanted{1};     ///< one per worker, if the device has so many
  /// Told that link() is worth asking; may come from any thread, until the port's destructor
  /// returns.
  std::function<void()> on_link_event{};
  /// Returns when every worker has ended the round that it was in at the call. For any thread but
  /// a worker's; a port's own threads need it, which cannot use the reclaimer.
  std::function<void()> wait_for_workers{};
  asio::io_context* io{nullptr};            ///< the control thread's; outlives the port
  pipeline::Reclaimer* reclaimer{nullptr};  ///< outlives the port
};

struct LinkState {
  bool up{false};
  uint64_t speed_bps{0};  ///< 0: unknown
  bool full_duplex{true};
};

class Port {
 public:
  /// Stops and removes the device. No worker may use io() any more.
  virtual ~Port() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual pipeline::PortIo& io() = 0;
  [[nodiscard]] virtual uint16_t n_rx_queues() const = 0;
  [[nodiscard]] virtual uint16_t n_tx_queues() const = 0;

  /// What it shares with other ports, if that is for one thread at a time: rx() and tx() of all
  /// ports that return the same are called by one worker only. Null: nothing.
  [[nodiscard]] virtual const void* owner_group() const { return nullptr; }

  /// True if any number of workers may call tx() at once, each with its own number for `queue`: the
  /// port chooses the device's queue itself, and two that get the same one wait for each other for
  /// one burst.
  [[nodiscard]] virtual bool tx_is_concurrent() const { return false; }

  /// NUMA node of the device, or -1: it has none.
  [[nodiscard]] virtual int numa_node() const { return -1; }

  /// True if tx() refuses by itself while there is no peer.
  [[nodiscard]] virtual bool io_knows_link() const { return false; }

  /// Flags of packet/offload.h that the device does for packets of which they are left; segments
  /// only of packets of which it has the flag of the IP version, too. For all others software does
  /// it (software_offload.h). Called by workers, too; it may change as the peer does.
  [[nodiscard]] virtual uint64_t tx_offloads() const noexcept { return 0; }

  /// The switch ends, and starts again: what of the device can outlive the object is to.
  virtual void keep_device() {}

  /// What of it may be joined past the switch (direct_end.h); null: nothing.
  [[nodiscard]] virtual DirectEnd* direct_end() { return nullptr; }

  /// Asks the device: a few times per second, and upon PortConfig::on_link_event.
  virtual LinkState link() = 0;
  [[nodiscard]] virtual MacAddress mac() const = 0;
  [[nodiscard]] virtual uint32_t mtu() const = 0;
  /// The kernel's index of the interface, for the kinds that have one.
  [[nodiscard]] virtual std::optional<uint32_t> ifindex() const = 0;

  /// Changes the MTU of the running device; an error if it cannot.
  virtual Result<> set_mtu(uint32_t mtu) = 0;

  /// The device's own counters, by OVS's names (rx_packets, ..., rx_missed_errors), since opened.
  [[nodiscard]] virtual std::map<std::string, int64_t> statistics() const = 0;
  /// Facts for the OVSDB column `status`: driver_name, numa_id, n_rxq, n_txq and the kind's own.
  [[nodiscard]] virtual StringMap status() const = 0;
};

/// The types that open_port() supports.
std::vector<std::string_view> port_types();

/// Opens and starts a port. The error says which option is wrong and what it may be, or what the
/// device said.
Result<std::unique_ptr<Port>> open_port(const PortConfig& config);

}  // namespace headrace::port
