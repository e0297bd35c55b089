// SPDX-License-Identifier: Apache-2.0
// The switch's session with an OVSDB server: what `ovs-vswitchd` is to it.
//
// Life: connect -> lock `ovs_vswitchd` (two daemons on one database would fight; the second waits)
// -> monitor -> apply the rows, write back -> follow updates. A lost connection is made again with
// back-off (100 ms to 8 s); the switch goes on forwarding meanwhile, and what changed in between is
// applied as a difference.
//
// What the switch refuses (Reconciler::wants_retry) is tried again with a back-off of its own
// (250 ms to 16 s) until it succeeds; its error column stays meanwhile.
//
// Writing back: one transaction at a time, which asserts the lock, so that a daemon that lost it
// writes nothing. Status is compared twice a second and written where it changed; statistics every
// other_config:stats-update-interval (default and least 5000 ms).
//
// Thread safety: none; everything runs on the io_context's thread.
#pragma once

#include <asio.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "ovsdb/database.h"
#include "ovsdb/reconciler.h"
#include "ovsdb/rpc.h"
#include "ovsdb/status_writer.h"

namespace headrace::ovsdb {

/// How long to wait before trying again: `first`, then twice as long each time, up to `longest`.
struct Backoff {
  std::chrono::milliseconds first;
  std::chrono::milliseconds longest;
};

class Client {
 public:
  static constexpr Backoff kRetry{std::chrono::milliseconds(250), std::chrono::seconds(16)};
  static constexpr std::chrono::milliseconds kMinBackoff{100};
  static constexpr std::chrono::milliseconds kMaxBackoff{8000};
  static constexpr std::chrono::milliseconds kStatusInterval{500};

  /// `target` is `unix:PATH`, `tcp:IP:PORT` or `ssl:IP:PORT`. `control` and `tls` (not null, for
  /// `ssl:`) must outlive the client. `retry` is for what the switch refuses.
  Client(asio::io_context& context, std::string target, SwitchControl& control,
         TlsCredentials* tls = nullptr, Backoff retry = kRetry);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Starts the session. Fails at once only for a malformed target.
  Result<> start();
  /// Ends the session; the server then gives up the lock.
  void stop();
  /// Compares and writes the status now rather than at the next half second; for events such as
  /// a link or a controller that came up.
  void refresh_soon();
  /// Whether the lock is held and the rows are known.
  [[nodiscard]] bool is_active() const { return active_; }

 private:
  void connect();
  void on_failure(const std::string& why);
  void on_notify(const std::string& method, const Json& params);
  void on_lock();
  void request_monitor();
  void on_rows_changed();
  /// Reads the rows and applies them; false if they can't be read and the session was given up.
  bool apply_rows();
  void schedule_retry();
  void stop_retry();
  /// Logs what was not said before.
  void log_new(Notes notes);
  void write_back();
  void transact(Json operations);
  void on_transacted(const Result<Json>& reply, size_t operations);
  void schedule_status();
  void schedule_statistics();
  /// Drops the connection for a peer that breaks the protocol, and reconnects.
  void give_up(const std::string& why);

  asio::io_context& context_;
  std::string target_;
  TlsCredentials* tls_;
  Reconciler reconciler_;
  StatusWriter writer_;
  Database database_;
  Notes logged_;  ///< what the log has been told already
  std::shared_ptr<Rpc> rpc_;
  asio::steady_timer reconnect_timer_;
  asio::steady_timer retry_timer_;
  asio::steady_timer status_timer_;
  asio::steady_timer statistics_timer_;
  std::chrono::milliseconds backoff_{kMinBackoff};
  Backoff retry_;
  std::chrono::milliseconds next_retry_;
  std::chrono::milliseconds stats_interval_{5000};
  bool running_{false};
  bool active_{false};
  bool retrying_{false};  ///< the retry timer runs
  bool transacting_{false};
  bool dirty_{false};  ///< status may have changed while a transaction was under way
  bool statistics_due_{false};
};

}  // namespace headrace::ovsdb
