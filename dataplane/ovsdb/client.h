// SPDX-License-Identifier: Apache-2.0
// The switch's session with an OVSDB server, in the role of `ovs-vswitchd`.
//
// Sequence: connect -> lock `ovs_vswitchd` (of two daemons on one database, the second waits) ->
// monitor -> apply the rows, write back -> follow updates. A lost connection is reestablished with
// back-off (100 ms to 8 s); meanwhile the switch continues forwarding, and changes made in between
// are applied afterwards.
//
// What the switch failed to apply (Reconciler::needs_retry) is retried with a separate back-off
// (250 ms to 16 s) until it succeeds; its error column is kept meanwhile.
//
// Writing back: one transaction at a time, which asserts the lock, so that a daemon that lost it
// writes nothing. Status is compared twice a second and written if it changed; statistics every
// other_config:stats-update-interval (default and minimum 5000 ms).
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

/// The delay before retrying: `first`, then twice as long each time, up to `longest`.
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
  /// `ssl:`) must outlive the client. `retry` is the back-off for failed rows.
  Client(asio::io_context& context, std::string target, SwitchControl& control,
         TlsCredentials* tls = nullptr, Backoff retry = kRetry);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Starts the session. Fails at once only if the target is malformed.
  Result<> start();
  /// Ends the session; the server then releases the lock.
  void stop();
  /// Compares and writes the status now rather than within half a second; for events such as a link
  /// or a controller that came up.
  void refresh_soon();
  /// Whether the lock is held and the rows have been received.
  [[nodiscard]] bool is_active() const { return active_; }

 private:
  void connect();
  void on_failure(const std::string& why);
  void on_notify(const std::string& method, const Json& params);
  void on_lock();
  void request_monitor();
  void on_rows_changed();
  /// Reads the rows and applies them; if they are malformed, ends the session and returns false.
  bool apply_rows();
  void schedule_retry();
  void stop_retry();
  /// Logs the notes that have not been logged before.
  void log_new(Notes notes);
  void write_back();
  /// Everything is written again: it is another session, or a transaction failed.
  void forget_written();
  void transact(Json operations);
  void on_transacted(const Result<Json>& reply, size_t operations);
  void schedule_status();
  void schedule_statistics();
  /// Closes the connection to a peer that violates the protocol, and reconnects.
  void drop_session(const std::string& why);

  asio::io_context& context_;
  std::string target_;
  TlsCredentials* tls_;
  Reconciler reconciler_;
  DesiredReader reader_;
  StatusWriter writer_;
  Database database_;
  Notes logged_;  ///< already logged
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
  bool retrying_{false};  ///< the retry timer is running
  bool transacting_{false};
  bool dirty_{false};  ///< status may have changed during a transaction
  bool statistics_due_{false};
};

}  // namespace headrace::ovsdb
