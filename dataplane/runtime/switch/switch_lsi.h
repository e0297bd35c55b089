// SPDX-License-Identifier: Apache-2.0
// One LSI of the switch with all that belongs to it: its pipeline, its ports with their devices,
// and its OpenFlow agent.
//
// Thread safety: control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openflow/agent/agent.h"
#include "openflow/agent/host.h"
#include "ovsdb/switch_control.h"
#include "pipeline/control/lsi.h"
#include "port/port.h"
#include "port/software_offload.h"
#include "port/tunnel_options.h"
#include "runtime/switch/buffer_pools.h"
#include "runtime/switch/fail_open.h"
#include "runtime/switch/packet_outs.h"
#include "runtime/workers/backlog.h"
#include "runtime/workers/owner_tx.h"
#include "runtime/workers/port_queues.h"
#include "runtime/workers/qsbr.h"
#include "runtime/workers/tx_queues.h"
#include "runtime/workers/worker_pool.h"

namespace headrace::runtime {

/// What the LSIs of a switch share.
struct SwitchParts {
  asio::io_context& io;
  Qsbr& qsbr;
  WorkerPool& workers;
  BufferPools& pools;
  Backlog& backlog;
  TlsCredentials& tls;
  std::string rundir;
  WakeUp& link_event;  ///< raised when links are worth asking for
  pipeline::TableBuilder& builder;
};

/// A port with its device; patch and tunnel ports have none.
struct SwitchPort {
  ovsdb::PortSpec spec;
  std::unique_ptr<port::Port> device;
  std::unique_ptr<port::SoftwareOffload> offload;  ///< before the device, if there is one
  std::unique_ptr<TxQueues> tx;           ///< null: `handed`, or the device locks by itself
  std::unique_ptr<OwnerTx> handed;        ///< where one worker alone may send
  std::unique_ptr<PortQueues> tx_queues;  ///< where the database gives the port some
  /// Those before a change of the database; workers leave them within a grace period.
  std::unique_ptr<PortQueues> old_tx_queues;
  uint64_t old_tx_dropped{0};  ///< by earlier queues
  std::vector<std::unique_ptr<QueueCounters>> queues;

  /// What the pipeline sends to.
  [[nodiscard]] pipeline::PortIo& io() const {
    return tx_queues ? static_cast<pipeline::PortIo&>(*tx_queues) : unscheduled_io();
  }
  /// The same behind the queues.
  [[nodiscard]] pipeline::PortIo& unscheduled_io() const {
    if (handed) return *handed;
    return tx ? static_cast<pipeline::PortIo&>(*tx) : *offload;
  }
  port::LinkState link;
  uint32_t mtu{0};  ///< of the device, as the pipeline knows it
  uint64_t link_resets{0};
  std::optional<port::TunnelOptions> tunnel;  ///< of a tunnel port
  port::StringMap tunnel_status;              ///< what Tunnels found for it
};

class SwitchLsi final : public openflow::AgentHost {
 public:
  /// Creates the LSI and listens on <rundir>/<name>.mgmt.
  static Result<std::unique_ptr<SwitchLsi>> make(SwitchParts parts, uint32_t id,
                                                 const ovsdb::LsiConfig& config);
  /// The ports must have been removed and a grace period passed.
  ~SwitchLsi() override = default;

  /// Applies a changed configuration.
  void update(const ovsdb::LsiConfig& config);
  void set_controllers(const std::vector<ovsdb::ControllerSpec>& controllers);
  [[nodiscard]] std::map<std::string, ovsdb::ControllerState> controller_states() const;
  /// Looks whether there is a controller still, for fail-mode. A few times per second.
  void watch_controllers();

  /// Opens the device and adds the port; the caller republishes what to poll.
  Result<> add_port(const ovsdb::PortSpec& spec);
  /// What can be changed while the port runs; false: only by making it anew.
  Result<bool> update_port(const ovsdb::PortSpec& spec);
  /// Ends a change of a port's queues: what waited in the old ones goes to the new ones. The caller
  /// has republished what to poll, and a grace period has passed.
  void finish_update(std::string_view port);
  /// Takes the port out of the pipeline; its device lives on in what is returned, for one grace
  /// period. Null: no such port.
  std::unique_ptr<SwitchPort> remove_port(std::string_view name);

  /// Asks devices for their links; true if one changed. A few times per second.
  bool poll_links();

  [[nodiscard]] const ovsdb::LsiConfig& config() const { return config_; }
  [[nodiscard]] uint32_t id() const { return lsi_->config().id; }
  [[nodiscard]] pipeline::Lsi& lsi() const { return *lsi_; }
  [[nodiscard]] openflow::Agent& agent() const { return *agent_; }
  [[nodiscard]] const std::map<std::string, std::unique_ptr<SwitchPort>, std::less<>>& ports()
      const {
    return ports_;
  }
  [[nodiscard]] const PacketOutDrops& packet_out_drops() const { return packet_outs_.drops(); }
  [[nodiscard]] const SwitchPort* find_port(std::string_view name) const;

  [[nodiscard]] ovsdb::PortState port_state(const SwitchPort& port) const;
  [[nodiscard]] std::map<std::string, int64_t> port_statistics(const SwitchPort& port) const;

  // openflow::AgentHost:
  bool packet_out(pipeline::PortNo in_port, std::unique_ptr<pipeline::ActionProgram> actions,
                  openflow::Bytes packet) override;
  [[nodiscard]] size_t largest_packet() const override { return BufferPools::kLargestFrame; }
  [[nodiscard]] openflow::DeviceCounters device_counters(pipeline::PortNo port_no) const override;
  bool set_fragments(pipeline::FragmentMode mode) override;
  [[nodiscard]] std::vector<openflow::QueueState> queues(pipeline::PortNo port_no) const override;

 private:
  SwitchLsi(SwitchParts parts, uint32_t id, const ovsdb::LsiConfig& config);
  Result<> add_tunnel(const ovsdb::PortSpec& spec);
  Result<> add_defragmenter(const ovsdb::PortSpec& spec);
  /// Makes the queues of `qos`, if there are any.
  Result<std::unique_ptr<PortQueues>> make_queues(const std::optional<pipeline::QosConfig>& qos,
                                                  pipeline::PortIo& io);
  Result<std::unique_ptr<SwitchPort>> open_device(const ovsdb::PortSpec& spec);
  /// Tells the pipeline of the device's MTU.
  void note_mtu(SwitchPort& port);
  /// What an LSI without controllers does: NORMAL if standalone, else nothing.
  void install_default_rules();
  /// Removes all rules, as OVS does when controllers come or go and when fail-mode changes
  /// without any.
  void start_rules_anew();

  SwitchParts parts_;
  ovsdb::LsiConfig config_;
  std::shared_ptr<pipeline::Lsi> lsi_;  ///< packet-outs under way hold a share
  std::map<std::string, std::unique_ptr<SwitchPort>, std::less<>> ports_;
  PacketOuts packet_outs_;
  bool has_controllers_{false};
  std::chrono::milliseconds longest_probe_{0};
  std::optional<FailOpen> fail_open_;
  std::unique_ptr<openflow::Agent> agent_;  ///< last: it uses all of the above
};

}  // namespace headrace::runtime
