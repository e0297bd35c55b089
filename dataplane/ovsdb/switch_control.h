// SPDX-License-Identifier: Apache-2.0
// The interface between OVSDB and the data path: all operations that the reconciler calls.
//
// The reconciler (reconciler.h) compares the rows of an OVSDB server with the rows applied so far,
// and calls these methods with the difference. The runtime implements them; tests record them.
//
// Why a separate interface: the module `ovsdb` handles rows and does not depend on workers or
// devices; the runtime does not depend on rows. Terms are Open vSwitch's, except that a bridge of
// the database is an LSI here, and an interface of the database is a port of an LSI.
//
// Division of work: the reconciler chooses port numbers, keeps names unique over all LSIs, pairs
// patch ports and records failures (it retries when the row changes). The implementation validates
// options, creates devices, and returns errors fit for the error column.
//
// Thread safety: none; all calls come from the control thread. A call may take as long as creating
// a device does; it must not interrupt forwarding on other ports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/stream.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/mirror_config.h"
#include "pipeline/terms/port_vlans.h"
#include "pipeline/terms/qos_config.h"

namespace headrace::ovsdb {

using StringMap = std::map<std::string, std::string>;

/// How an LSI handles packets that match no rule while no controller is connected.
enum class FailMode : uint8_t {
  standalone,  ///< forward as a learning switch (a NORMAL rule)
  secure,      ///< drop
};

/// A bridge row: the configuration of an LSI.
struct LsiConfig {
  std::string name;
  uint64_t datapath_id{0};  ///< other_config:datapath-id, or one derived from the row's UUID
  std::string description;  ///< other_config:dp-desc; "" = none
  FailMode fail_mode{FailMode::standalone};
  uint32_t mac_age_s{300};   ///< other_config:mac-aging-time
  bool forward_bpdu{false};  ///< other_config:forward-bpdu
  StringMap other_config;    ///< all keys, for those not listed above
  bool operator==(const LsiConfig&) const = default;
};

/// An interface row: the configuration of a port.
struct PortSpec {
  std::string name;                ///< unique over all LSIs
  std::string type;                ///< `dpdk`, `memif`, `internal`, ...; "" is spelt `system`
  pipeline::PortNo number{0};      ///< chosen by the reconciler; LOCAL for the LSI's own port
  StringMap options;               ///< the column `options` (dpdk-devargs, peer, n_rxq, ...)
  std::optional<uint32_t> mtu;     ///< mtu_request, bytes of IP; absent = the device's default
  std::optional<std::string> mac;  ///< the column `mac`, xx:xx:xx:xx:xx:xx
  std::optional<pipeline::QosConfig> qos;     ///< none: one queue without limits
  std::optional<pipeline::PortVlans> vlans;   ///< for NORMAL; none: a trunk of all VLANs
  std::map<uint16_t, unsigned> rxq_affinity;  ///< queue -> CPU, from other_config:pmd-rxq-affinity
  bool operator==(const PortSpec&) const = default;
};

/// The current state of a port; written to the status columns of its row.
struct PortState {
  bool admin_up{false};
  bool link_up{false};
  std::optional<uint64_t> link_speed_bps;
  std::optional<bool> full_duplex;
  std::optional<uint32_t> mtu;
  std::optional<std::string> mac;
  std::optional<uint32_t> ifindex;
  uint64_t link_resets{0};
  StringMap status;  ///< per kind: driver_name, mode, socket, n_rxq, peer, ...
  std::vector<std::string>
      notes;  ///< settings of the spec that can't be applied at present, and what to do
  bool operator==(const PortState&) const = default;
};

/// A controller row of a bridge.
struct ControllerSpec {
  std::string target;  ///< `tcp:IP[:PORT]`, `ptcp:[PORT][:IP]`, `unix:FILE`, `ssl:`...
  uint32_t max_backoff_ms{8000};
  uint32_t inactivity_probe_ms{5000};  ///< 0 = never
  uint32_t packet_in_rate{0};          ///< controller_rate_limit, per second; 0: none
  uint32_t packet_in_burst{0};  ///< controller_burst_limit, packets; 0: a quarter of the rate
  bool operator==(const ControllerSpec&) const = default;
};

/// The current state of a controller connection; written to the status columns of its row.
struct ControllerState {
  bool is_connected{false};
  std::optional<std::string> role;  ///< "other", "master" or "slave"
  StringMap status;                 ///< state, last_error, sec_since_connect, sec_since_disconnect
  bool operator==(const ControllerState&) const = default;
};

/// Polling settings of the whole switch (Open_vSwitch:other_config).
struct WorkerConfig {
  std::optional<std::vector<unsigned>> cpus;   ///< pmd-cpu-mask; absent = the switch's own choice
  uint32_t max_sleep_us{0};                    ///< pmd-maxsleep
  std::string rxq_assign{"cycles"};            ///< pmd-rxq-assign: roundrobin, cycles or group
  bool auto_lb{false};                         ///< pmd-auto-lb
  uint32_t auto_lb_interval_minutes{1};        ///< pmd-auto-lb-rebal-interval
  uint32_t auto_lb_load_threshold{95};         ///< pmd-auto-lb-load-threshold, percent
  uint32_t auto_lb_improvement_threshold{25};  ///< pmd-auto-lb-improvement-threshold, percent
  bool operator==(const WorkerConfig&) const = default;
};

/// The switch's properties; written to the Open_vSwitch row.
struct SwitchInfo {
  std::string version;  ///< -> ovs_version, e.g. "headrace 0.1.0"
  std::string dpdk_version;
  bool dpdk_initialized{false};
  std::vector<std::string> port_types;  ///< -> iface_types
};

/// The interface that the reconciler uses; see the top of this file.
class SwitchControl {
 public:
  virtual ~SwitchControl() = default;

  [[nodiscard]] virtual SwitchInfo info() const = 0;

  /// Applies polling settings. Called at the start and when they change.
  virtual Result<> set_workers(const WorkerConfig& config) = 0;

  /// Sets the files for `ssl:` and `pssl:` targets, which are read when a connection needs them.
  virtual void set_tls(const TlsFiles& files) = 0;

  /// Creates an LSI without ports. Fails if the name exists or the configuration is invalid.
  virtual Result<> create_lsi(const LsiConfig& config) = 0;
  /// Applies the changes of the LSI `config.name`; flows and ports are kept.
  virtual Result<> update_lsi(const LsiConfig& config) = 0;
  /// Destroys an LSI with its flows and ports. Other LSIs are not affected.
  virtual void destroy_lsi(std::string_view lsi) = 0;

  /// Creates a port and starts forwarding on it.
  virtual Result<> add_port(std::string_view lsi, const PortSpec& spec) = 0;
  /// Applies the changes of an existing port without taking it down. Returns false if the port must
  /// be recreated; the reconciler then removes and adds it. Name and type never change here.
  virtual Result<bool> update_port(std::string_view lsi, const PortSpec& spec) = 0;
  /// Removes a port; packets queued on it are dropped. An unknown name is not an error.
  virtual void remove_port(std::string_view lsi, std::string_view port) = 0;

  /// Connects two ports of type `patch` (of two LSIs or of one). Both exist; neither is connected.
  virtual Result<> connect_patch(std::string_view lsi_a, std::string_view port_a,
                                 std::string_view lsi_b, std::string_view port_b) = 0;
  /// Disconnects a patch port from its peer: packets sent on either are dropped from then on.
  virtual void disconnect_patch(std::string_view lsi, std::string_view port) = 0;

  /// Sets the whole list of an LSI's controllers; unchanged ones keep their connection. A target
  /// that can't be used is reported in its ControllerState, not here.
  virtual void set_controllers(std::string_view lsi,
                               const std::vector<ControllerSpec>& controllers) = 0;

  /// Sets the whole list of an LSI's mirrors; those with an unchanged `id` keep their counters.
  virtual Result<> set_mirrors(std::string_view lsi,
                               const std::vector<pipeline::MirrorConfig>& mirrors) = 0;
  /// The mirrors' counters, by MirrorConfig::id.
  [[nodiscard]] virtual std::map<std::string, pipeline::MirrorStats> mirror_statistics(
      std::string_view lsi) const = 0;

  [[nodiscard]] virtual PortState port_state(std::string_view lsi, std::string_view port) const = 0;
  /// Counters since the port was made, with OVS's names: rx_packets, tx_packets, rx_bytes,
  /// tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors; further ones may follow.
  [[nodiscard]] virtual std::map<std::string, int64_t> port_statistics(
      std::string_view lsi, std::string_view port) const = 0;
  /// By target, for each controller last set.
  [[nodiscard]] virtual std::map<std::string, ControllerState> controller_states(
      std::string_view lsi) const = 0;
};

}  // namespace headrace::ovsdb
