// SPDX-License-Identifier: Apache-2.0
#include "traffic/ports/port_opener.h"

#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>

namespace headrace::traffic {

namespace {

/// Between two attempts to end a wait: the socket may not exist yet, or not listen.
constexpr std::chrono::milliseconds kRetryInterval{20};

}  // namespace

PortOpener::~PortOpener() {
  if (!busy()) return;
  while (!returned_.load()) {
    abort_wait();
    std::this_thread::sleep_for(kRetryInterval);
  }
  thread_.join();
}

void PortOpener::open(PortOptions options, std::chrono::milliseconds wait, Done done) {
  options_ = std::move(options);
  done_ = std::move(done);
  gave_up_ = false;
  returned_ = false;
  thread_ = std::thread([this, alive = std::weak_ptr(alive_), copy = options_] {
    // The shared pointer closes the port if the opener has been destroyed meanwhile.
    auto port = std::make_shared<Result<std::unique_ptr<TrafficPort>>>(TrafficPort::open(copy));
    returned_ = true;
    asio::post(io_, [this, alive, port] {
      if (!alive.expired()) finished(std::move(*port));
    });
  });
  abort_after(wait);
}

void PortOpener::abort_after(std::chrono::milliseconds wait) {
  timer_.expires_after(wait);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || !busy()) return;
    abort_wait();
    abort_after(kRetryInterval);
  });
}

void PortOpener::finished(Result<std::unique_ptr<TrafficPort>> port) {
  thread_.join();
  timer_.cancel();
  if (!port && gave_up_) {
    port = fail_as("no_peer", "/devargs: {}: no peer connected in time; is it running?",
                   options_.devargs);
  }
  std::exchange(done_, nullptr)(std::move(port));
}

void PortOpener::abort_wait() {
  const std::string path = devarg(options_.devargs, "path");
  if (path.empty() || devarg(options_.devargs, "server") != "1") return;
  gave_up_ = true;
  asio::local::stream_protocol::socket socket(io_);
  asio::error_code error;  // on failure no driver waits on the socket, yet or any more
  socket.connect(asio::local::stream_protocol::endpoint(path), error);
}

}  // namespace headrace::traffic
