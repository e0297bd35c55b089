// SPDX-License-Identifier: Apache-2.0
#include "traffic/ports/port_opener.h"

#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>

#include "base/log.h"

namespace headrace::traffic {

PortOpener::~PortOpener() {
  if (!busy()) return;
  give_up();
  thread_.join();
}

void PortOpener::open(PortOptions options, std::chrono::milliseconds wait, Done done) {
  options_ = std::move(options);
  done_ = std::move(done);
  gave_up_ = false;
  thread_ = std::thread([this, alive = std::weak_ptr(alive_), copy = options_] {
    // A port that nobody takes any more is closed by the end of this message.
    auto port = std::make_shared<Result<std::unique_ptr<TrafficPort>>>(TrafficPort::open(copy));
    asio::post(io_, [this, alive, port] {
      if (!alive.expired()) finished(std::move(*port));
    });
  });
  timer_.expires_after(wait);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error && busy()) give_up();
  });
}

void PortOpener::finished(Result<std::unique_ptr<TrafficPort>> port) {
  thread_.join();
  timer_.cancel();
  if (!port && gave_up_) {
    port = fail_as("no_peer", "/devargs: {}: nobody connected in time; is the peer there?",
                   options_.devargs);
  }
  std::exchange(done_, nullptr)(std::move(port));
}

void PortOpener::give_up() {
  const std::string path = devarg(options_.devargs, "path");
  if (path.empty() || devarg(options_.devargs, "server") != "1") return;
  gave_up_ = true;
  asio::local::stream_protocol::socket socket(io_);
  asio::error_code error;
  socket.connect(asio::local::stream_protocol::endpoint(path), error);
  if (error) log::warn("port {}: cannot end the wait: {}", options_.name, error.message());
}

}  // namespace headrace::traffic
