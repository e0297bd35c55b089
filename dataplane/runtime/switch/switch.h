// SPDX-License-Identifier: Apache-2.0
// The switch: LSIs, ports and workers, as the database configures them (ovsdb::SwitchControl).
//
// All control work is done by one thread, which runs the io_context: OVSDB, OpenFlow, the control
// socket, timers. Workers forward; control publishes to them and never waits, but where a device is
// removed: its port leaves the pipeline, all workers finish their round (microseconds), and only
// then the device goes. Other ports are polled on meanwhile.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ovsdb/switch_control.h"
#include "runtime/switch/buffer_pools.h"
#include "runtime/switch/builder_thread.h"
#include "runtime/switch/direct_link_manager.h"
#include "runtime/switch/switch_lsi.h"
#include "runtime/switch/tunnels.h"
#include "runtime/workers/qsbr.h"
#include "runtime/workers/worker_pool.h"

namespace headrace::runtime {

struct SwitchOptions {
  std::string rundir;                  ///< management sockets, dpdkvhostuser sockets
  uint32_t memory_mb{256};             ///< what EAL was given
  std::vector<unsigned> default_cpus;  ///< for workers, while pmd-cpu-mask is not set
  TlsFiles tls;                        ///< while OVSDB has no SSL row
};

class Switch final : public ovsdb::SwitchControl {
 public:
  /// EAL must be up. `io` must outlive the switch.
  static Result<std::unique_ptr<Switch>> make(asio::io_context& io, SwitchOptions options);
  /// Ends workers, then removes LSIs and ports.
  ~Switch() override;
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

  /// Called when the state of a port changed by itself (its link), so that OVSDB is updated.
  void on_status_change(std::function<void()> notify) { status_changed_ = std::move(notify); }

  [[nodiscard]] const std::map<std::string, std::unique_ptr<SwitchLsi>, std::less<>>& lsis() const {
    return lsis_;
  }
  /// The LSI of that name, or null.
  [[nodiscard]] SwitchLsi* find(std::string_view lsi) const;
  /// Stage timing in all workers; when this returns, every round is (or no round is) timed.
  void set_stage_timing(bool on);
  /// Deals all receive queues and schedulers anew, by the loads measured.
  void rebalance() { workers_.rebalance(); }
  [[nodiscard]] std::vector<LinkReport> direct_links() { return links_.report(); }
  /// The longest that any thread waited for workers to end their rounds.
  [[nodiscard]] std::chrono::microseconds longest_grace_wait() const {
    return qsbr_.longest_wait();
  }
  [[nodiscard]] const WorkerPool& workers() const { return workers_; }
  /// For `ssl:` targets of OpenFlow and OVSDB.
  [[nodiscard]] TlsCredentials& tls() { return tls_; }
  [[nodiscard]] const BufferPools& pools() const { return pools_; }

  // ovsdb::SwitchControl:
  [[nodiscard]] ovsdb::SwitchInfo info() const override;
  Result<> set_workers(const ovsdb::WorkerConfig& config) override;
  void set_tls(const TlsFiles& files) override { tls_.set_files(files); }
  Result<> create_lsi(const ovsdb::LsiConfig& config) override;
  Result<> update_lsi(const ovsdb::LsiConfig& config) override;
  void destroy_lsi(std::string_view lsi) override;
  /// Destroys every LSI, for the switch ends; their devices are closed when it returns.
  void clear();
  Result<> add_port(std::string_view lsi, const ovsdb::PortSpec& spec) override;
  Result<bool> update_port(std::string_view lsi, const ovsdb::PortSpec& spec) override;
  void remove_port(std::string_view lsi, std::string_view port) override;
  Result<> connect_patch(std::string_view lsi_a, std::string_view port_a, std::string_view lsi_b,
                         std::string_view port_b) override;
  void disconnect_patch(std::string_view lsi, std::string_view port) override;
  void set_controllers(std::string_view lsi,
                       const std::vector<ovsdb::ControllerSpec>& controllers) override;
  Result<> set_mirrors(std::string_view lsi,
                       const std::vector<pipeline::MirrorConfig>& mirrors) override;
  [[nodiscard]] std::map<std::string, pipeline::MirrorStats> mirror_statistics(
      std::string_view lsi) const override;
  [[nodiscard]] ovsdb::PortState port_state(std::string_view lsi,
                                            std::string_view port) const override;
  [[nodiscard]] std::map<std::string, int64_t> port_statistics(
      std::string_view lsi, std::string_view port) const override;
  [[nodiscard]] std::map<std::string, ovsdb::ControllerState> controller_states(
      std::string_view lsi) const override;

 private:
  Switch(asio::io_context& io, SwitchOptions options, BufferPools pools,
         std::unique_ptr<WakeUp> wake_up, std::unique_ptr<WakeUp> link_event,
         std::unique_ptr<KernelNetwork> kernel);
  void publish_queues();
  void wait_for_punts();
  void read_punts();
  void wait_for_link_events();
  void wait_for_kernel_events();
  void schedule_housekeeping();
  void poll_links();
  void schedule_reclaim();

  asio::io_context& io_;
  BuilderThread builder_;
  SwitchOptions options_;
  TlsCredentials tls_;
  BufferPools pools_;
  Backlog backlog_;
  std::unique_ptr<WakeUp> wake_up_;
  std::unique_ptr<WakeUp> link_event_;
  Qsbr qsbr_;
  WorkerPool workers_;
  std::map<std::string, std::unique_ptr<SwitchLsi>, std::less<>> lsis_;
  std::unique_ptr<KernelNetwork> kernel_;
  Tunnels tunnels_{lsis_, *kernel_};
  DirectLinkManager links_{io_, lsis_};
  uint32_t next_id_{1};
  std::function<void()> status_changed_;
  asio::posix::stream_descriptor punt_event_;
  asio::posix::stream_descriptor link_event_fd_;
  asio::posix::stream_descriptor kernel_event_;
  asio::steady_timer housekeeping_;
  asio::steady_timer reclaim_;
  bool reclaim_scheduled_{false};
};

}  // namespace headrace::runtime
