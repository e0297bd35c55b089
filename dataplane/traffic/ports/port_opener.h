// SPDX-License-Identifier: Apache-2.0
// Opens ports without blocking the control thread.
//
// Why: the probe of net_virtio_user with server=1 does not return until a vhost-user client (the
// switch) has connected, which may take a second or forever. So a port is opened in a separate
// thread, and after a timeout the wait is ended: we connect to the socket ourselves and close it,
// which makes the driver's negotiation, and with it the probe, fail.
//
// Thread safety: all in the thread of the io_context; `done` is called there too.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/result.h"
#include "traffic/ports/traffic_port.h"

namespace headrace::traffic {

class PortOpener {
 public:
  using Done = std::function<void(Result<std::unique_ptr<TrafficPort>>)>;

  explicit PortOpener(asio::io_context& io) : io_(io), timer_(io) {}
  /// Ends a wait and joins the thread; `done` is not called any more.
  ~PortOpener();
  PortOpener(const PortOpener&) = delete;
  PortOpener& operator=(const PortOpener&) = delete;

  /// Whether a port is being opened; only one at a time can be.
  [[nodiscard]] bool busy() const { return thread_.joinable(); }

  /// Opens a port; fails if its driver still waits for a peer after `wait`. Must not be busy.
  void open(PortOptions options, std::chrono::milliseconds wait, Done done);

 private:
  void finished(Result<std::unique_ptr<TrafficPort>> port);
  void abort_after(std::chrono::milliseconds wait);
  void abort_wait();

  asio::io_context& io_;
  asio::steady_timer timer_;
  std::thread thread_;
  PortOptions options_;
  Done done_;
  bool gave_up_{false};
  std::atomic<bool> returned_{true};  ///< the thread has finished, or there is none
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace headrace::traffic
