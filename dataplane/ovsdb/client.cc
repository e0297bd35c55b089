// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/client.h"

#include <algorithm>

#include "base/log.h"

namespace headrace::ovsdb {
namespace {

constexpr const char* kLock = "ovs_vswitchd";
constexpr const char* kSchema = "Open_vSwitch";
constexpr const char* kMonitorId = "headrace";

Json array(std::initializer_list<Json> elements) {
  Json result = Json::array();
  for (const auto& element : elements) {
    result.push_back(element);
  }
  return result;
}

/// The notes of settings that no row's status column reports, each with the row's name.
Notes all_notes(const Desired& desired) {
  Notes all = desired.notes;
  const auto take = [&all](const char* what, const std::string& name, const Notes& notes) {
    for (const auto& note : notes) {
      all.push_back(fmt::format("{} {}: {}", what, name, note));
    }
  };
  for (const auto& bridge : desired.bridges) {
    take("bridge", bridge->config.name, bridge->notes);
    for (const auto& port : bridge->ports) {
      take("port", port.name, port.notes);
    }
    for (const auto& controller : bridge->controllers) {
      take("controller", controller.spec.target, controller.notes);
    }
    for (const auto& interface : bridge->interfaces) {
      take("interface", interface.spec.name, interface.notes);
    }
  }
  return all;
}

/// The first error in a reply to "transact" (RFC 7047, section 4.1.3), or "".
std::string transaction_error(const Json& reply) {
  if (!reply.is_array()) {
    return "the reply is not an array";
  }
  for (const auto& outcome : reply) {
    if (outcome.is_object() && outcome.contains("error")) {
      return outcome.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
  }
  return "";
}

}  // namespace

Client::Client(asio::io_context& context, std::string target, SwitchControl& control,
               TlsCredentials* tls, Backoff retry)
    : context_(context),
      target_(std::move(target)),
      tls_(tls),
      reconciler_(control),
      reconnect_timer_(context),
      retry_timer_(context),
      status_timer_(context),
      statistics_timer_(context),
      retry_(retry),
      next_retry_(retry.first) {}

Client::~Client() {
  stop();
}

Result<> Client::start() {
  if (auto endpoint = parse_target(target_); !endpoint) {
    return tl::unexpected(endpoint.error());
  }
  running_ = true;
  connect();
  return {};
}

void Client::stop() {
  running_ = false;
  active_ = false;
  reconnect_timer_.cancel();
  stop_retry();
  status_timer_.cancel();
  statistics_timer_.cancel();
  if (rpc_) {
    rpc_->close();
    rpc_->on_failure = nullptr;
    rpc_.reset();
  }
}

void Client::connect() {
  rpc_ = std::make_shared<Rpc>(context_, tls_);
  rpc_->on_failure = [this](const std::string& why) { on_failure(why); };
  rpc_->on_notify = [this](const std::string& method, const Json& params) {
    on_notify(method, params);
  };
  rpc_->on_connect = [this] {
    log::info("ovsdb: connected to {}", target_);
    rpc_->request("lock", array({kLock}), [this](const Result<Json>& reply) {
      if (!reply) {
        drop_session("lock refused: " + reply.error().message);
        return;
      }
      const auto locked = reply->is_object() ? reply->find("locked") : reply->end();
      if (locked != reply->end() && locked->is_boolean() && locked->get<bool>()) {
        on_lock();
      } else {
        log::warn("ovsdb: another process holds the lock {}; waiting for it", kLock);
      }
    });
  };
  if (auto connecting = rpc_->connect(target_); !connecting) {
    on_failure(connecting.error().message);
  }
}

void Client::on_failure(const std::string& why) {
  active_ = false;
  transacting_ = false;
  stop_retry();
  status_timer_.cancel();
  statistics_timer_.cancel();
  if (!running_) {
    return;
  }
  log::warn("ovsdb: {}; next try in {} ms", why, backoff_.count());
  reconnect_timer_.expires_after(backoff_);
  backoff_ = std::min(backoff_ * 2, kMaxBackoff);
  reconnect_timer_.async_wait([this](asio::error_code code) {
    if (!code && running_) {
      connect();
    }
  });
}

void Client::drop_session(const std::string& why) {
  rpc_->close();
  on_failure(why);
}

void Client::on_notify(const std::string& method, const Json& params) {
  if (method == "locked") {
    if (!active_) {
      on_lock();
    }
  } else if (method == "stolen") {
    drop_session("the lock was stolen");
  } else if (method == "update" && params.size() == 2 && active_) {
    if (auto applied = database_.apply(params[1]); !applied) {
      drop_session(applied.error().message);
      return;
    }
    on_rows_changed();
  }
}

void Client::on_lock() {
  request_monitor();
}

void Client::request_monitor() {
  rpc_->request("monitor", array({kSchema, kMonitorId, Database::monitor_requests()}),
                [this](const Result<Json>& reply) {
                  if (!reply) {
                    drop_session("monitor refused: " + reply.error().message);
                    return;
                  }
                  database_.clear();
                  forget_written();
                  if (auto applied = database_.apply(*reply); !applied) {
                    drop_session(applied.error().message);
                    return;
                  }
                  backoff_ = kMinBackoff;
                  active_ = true;
                  on_rows_changed();
                  if (active_) {
                    schedule_status();
                    schedule_statistics();
                  }
                });
}

void Client::log_new(Notes notes) {
  for (const auto& note : notes) {
    if (std::find(logged_.begin(), logged_.end(), note) == logged_.end()) {
      log::warn("ovsdb: {}", note);
    }
  }
  logged_ = std::move(notes);
}

void Client::on_rows_changed() {
  if (apply_rows()) {
    schedule_retry();
  }
}

bool Client::apply_rows() {
  const auto desired = reader_.read(database_);
  if (!desired) {
    drop_session(desired.error().message);
    return false;
  }
  log_new(all_notes(*desired));
  stats_interval_ = desired->stats_interval;
  reconciler_.apply(*desired);
  write_back();
  return true;
}

void Client::schedule_retry() {
  if (!reconciler_.needs_retry()) {
    stop_retry();
    return;
  }
  // A retry that is already scheduled is not postponed by updates in between, which may be
  // frequent.
  if (retrying_) {
    return;
  }
  retrying_ = true;
  retry_timer_.expires_after(next_retry_);
  retry_timer_.async_wait([this](asio::error_code code) {
    if (code || !retrying_) {
      return;
    }
    retrying_ = false;
    next_retry_ = std::min(next_retry_ * 2, retry_.longest);
    if (apply_rows()) {
      schedule_retry();
    }
  });
}

void Client::stop_retry() {
  retrying_ = false;
  retry_timer_.cancel();
  next_retry_ = retry_.first;
}

void Client::refresh_soon() {
  asio::post(context_, [this] {
    if (active_) {
      write_back();
    }
  });
}

void Client::write_back() {
  if (transacting_) {
    dirty_ = true;
    return;
  }
  dirty_ = false;
  writer_.drop(reconciler_.take_gone());
  auto rows = reconciler_.changed_status();
  if (statistics_due_) {
    statistics_due_ = false;
    for (auto& [key, columns] : reconciler_.changed_statistics()) {
      rows[key].update(columns);
    }
  }
  auto operations = writer_.operations(rows);
  if (!operations.empty()) {
    transact(std::move(operations));
  }
}

void Client::forget_written() {
  writer_.forget();
  reconciler_.forget_told();
}

void Client::transact(Json operations) {
  transacting_ = true;
  const size_t count = operations.size();
  Json params = array({kSchema, Json{{"op", "assert"}, {"lock", kLock}}});
  for (auto& operation : operations) {
    params.push_back(std::move(operation));
  }
  rpc_->request("transact", std::move(params),
                [this, count](const Result<Json>& reply) { on_transacted(reply, count); });
}

void Client::on_transacted(const Result<Json>& reply, size_t operations) {
  transacting_ = false;
  const auto error = reply ? transaction_error(*reply) : reply.error().message;
  if (!error.empty()) {
    // The next status round (half a second) writes everything again.
    log::warn("ovsdb: a transaction of {} updates failed: {}", operations, error);
    forget_written();
    return;
  }
  if (dirty_) {
    write_back();
  }
}

void Client::schedule_status() {
  status_timer_.expires_after(kStatusInterval);
  status_timer_.async_wait([this](asio::error_code code) {
    if (code || !active_) {
      return;
    }
    write_back();
    schedule_status();
  });
}

void Client::schedule_statistics() {
  statistics_timer_.expires_after(stats_interval_);
  statistics_timer_.async_wait([this](asio::error_code code) {
    if (code || !active_) {
      return;
    }
    statistics_due_ = true;
    write_back();
    schedule_statistics();
  });
}

}  // namespace headrace::ovsdb
