// SPDX-License-Identifier: Apache-2.0
#include "traffic/ports/port_opener.h"

#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>

namespace headrace::traffic {

namespace {

/// Between two attempts to end a wait: its socket may not be there yet, or not listen.
constexpr std::chrono::milliseconds kAgain{20};

}  // namespace

PortOpener::~PortOpener() {
  if (!busy()) return;
  while (!returned_.load()) {
    give_up();
    std::this_thread::sleep_for(kAgain);
  }
  thread_.join();
}

void PortOpener::open(PortOptions options, std::chrono::milliseconds wait, Done done) {
  options_ = std::move(options);
  done_ = std::move(done);
  gave_up_ = false;
  returned_ = false;
  thread_ = std::thread([this, alive = std::weak_ptr(alive_), copy = options_] {
    // A port whose requester has gone is closed at the end of this message.
    auto port = std::make_shared<Result<std::unique_ptr<TrafficPort>>>(TrafficPort::open(copy));
    returned_ = true;
    asio::post(io_, [this, alive, port] {
      if (!alive.expired()) finished(std::move(*port));
    });
  });
  give_up_after(wait);
}

void PortOpener::give_up_after(std::chrono::milliseconds wait) {
  timer_.expires_after(wait);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || !busy()) return;
    give_up();
    give_up_after(kAgain);
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
  asio::error_code error;  // then there is nothing that waits yet, or no more
  socket.connect(asio::local::stream_protocol::endpoint(path), error);
}

}  // namespace headrace::traffic
