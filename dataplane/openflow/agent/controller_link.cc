// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/controller_link.h"

#include <algorithm>

#include "base/log.h"

namespace headrace::openflow {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kFirstBackoff{1000};

std::chrono::seconds since(const std::optional<Clock::time_point>& then) {
  if (!then) return std::chrono::seconds(-1);
  return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - *then);
}

}  // namespace

ControllerLink::ControllerLink(asio::io_context& io, ControllerConfig config, TlsCredentials* tls,
                               Connected connected)
    : io_(io),
      config_(std::move(config)),
      tls_(tls),
      connected_(std::move(connected)),
      timer_(io) {}

void ControllerLink::start() {
  Result<Target> target = parse_target(config_.target);
  if (!target) {
    last_error_ = target.error().message;
    return;
  }
  target_ = std::move(*target);
  open();
}

void ControllerLink::open() {
  if (target_->passive) {
    listen();
  } else {
    connect();
  }
}

void ControllerLink::listen() {
  Result<std::unique_ptr<Listener>> listener = Listener::open(
      io_, *target_, tls_,
      [this](std::unique_ptr<Stream> stream) { connected_(*this, std::move(stream)); });
  if (!listener) {
    if (last_error_ != listener.error().message) {
      log::warn("openflow: controller {}: {}", config_.target, listener.error().message);
    }
    last_error_ = listener.error().message;
    back_off();
    return;
  }
  state_ = State::idle;
  last_error_.clear();
  listener_ = std::move(*listener);
}

void ControllerLink::connect() {
  state_ = State::connecting;
  attempt_ = std::make_unique<ConnectAttempt>(io_, *target_, tls_,
                                              [this](Result<std::unique_ptr<Stream>> stream) {
                                                if (!stream) {
                                                  lost(false, stream.error().message);
                                                  return;
                                                }
                                                connected_(*this, std::move(*stream));
                                              });
}

void ControllerLink::ready() {
  state_ = State::connected;
  ++connections_;
  backoff_ = std::chrono::milliseconds(0);
  connected_at_ = Clock::now();
  log::info("openflow: controller {}: connected", config_.target);
}

void ControllerLink::lost(bool was_ready, const std::string& reason) {
  last_error_ = reason;
  if (was_ready) {
    --connections_;
    disconnected_at_ = Clock::now();
    log::info("openflow: controller {}: {}", config_.target, reason);
  }
  if (target_ && !target_->passive) back_off();
}

void ControllerLink::back_off() {
  state_ = State::backoff;
  const std::chrono::milliseconds most = std::max(config_.max_backoff, kFirstBackoff);
  backoff_ = std::clamp(backoff_ * 2, kFirstBackoff, most);
  timer_.expires_after(backoff_);
  timer_.async_wait([this, alive = std::weak_ptr<bool>(alive_)](const std::error_code& cancelled) {
    if (!cancelled && !alive.expired()) open();
  });
}

bool ControllerLink::may_send_packet_in() {
  if (config_.packet_in_rate == 0) return true;
  using std::chrono::nanoseconds;
  const nanoseconds each = nanoseconds(std::chrono::seconds(1)) / config_.packet_in_rate;
  const uint32_t burst =
      config_.packet_in_burst != 0 ? config_.packet_in_burst : config_.packet_in_rate / 4;
  // Virtual scheduling: each packet advances the time, ahead of the clock by at most the burst.
  const auto now = std::chrono::steady_clock::now();
  const auto from = std::max(packet_ins_paid_until_, now);
  if (from - now > each * std::max(burst, 1u) - each) {
    ++packet_ins_limited_;
    return false;
  }
  packet_ins_paid_until_ = from + each;
  return true;
}

ControllerStatus ControllerLink::status() const {
  ControllerStatus status;
  status.target = config_.target;
  status.is_connected = connections_ > 0;
  switch (state_) {
    case State::idle:
      status.state = "VOID";
      break;
    case State::backoff:
      status.state = "BACKOFF";
      break;
    case State::connecting:
      status.state = "CONNECTING";
      break;
    case State::connected:
      status.state = connections_ > 0 ? "ACTIVE" : "VOID";
      break;
  }
  status.last_error = last_error_;
  status.packet_ins_limited = packet_ins_limited_;
  status.packet_ins_dropped = packet_ins_dropped_;
  status.since_connect = since(connected_at_);
  status.since_disconnect = since(disconnected_at_);
  return status;
}

}  // namespace headrace::openflow
