// SPDX-License-Identifier: Apache-2.0
// headrace-traffic's control methods (docs/traffic.md): ports, streams, trials, calibration.
//
// The control thread serves the socket and owns ports and streams; trials run in the workers.
// During a trial ports and streams can't be changed (error "busy"); ports, read and ping are
// answered.
//
// Thread safety: all in the thread of the io_context.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/control_server.h"
#include "traffic/ports/port_opener.h"
#include "traffic/ports/traffic_port.h"
#include "traffic/trial/calibration.h"
#include "traffic/trial/trial.h"
#include "traffic/trial/worker_threads.h"

namespace headrace::traffic {

class Service {
 public:
  /// `io` and `threads` must outlive the service.
  Service(asio::io_context& io, WorkerThreads& threads) : io_(io), threads_(threads), opener_(io) {}
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Adds the methods to `server`.
  void serve(ControlServer& server);
  /// Ends a running trial or calibration early, so that the workers can be joined.
  void stop_trial();

 private:
  using json = nlohmann::json;
  using Reply = ControlServer::Reply;

  void add_port(const json& params, const Reply& reply);
  Result<json> remove_port(const json& params);
  Result<json> list_ports(const json& params);
  Result<json> configure(const json& params);
  void trial(const json& params, const Reply& reply);
  Result<json> start(const json& params);
  Result<json> read(const json& params);
  void stop(const json& params, const Reply& reply);
  void calibrate(const json& params, const Reply& reply);

  [[nodiscard]] Result<> idle() const;
  [[nodiscard]] Result<> check_links() const;
  Result<> launch(const TrialOptions& options);
  void finished();
  [[nodiscard]] json result() const;

  asio::io_context& io_;
  WorkerThreads& threads_;
  PortOpener opener_;
  std::map<std::string, std::unique_ptr<TrafficPort>> ports_;
  std::vector<Stream> streams_;
  std::unique_ptr<Trial> trial_;  ///< the running one, or the last
  bool running_{false};
  std::unique_ptr<Calibration> calibrating_;  ///< the running one
  std::vector<Reply> waiting_;                ///< to be sent at the end of the running trial
  /// Begins at a random number, so that two generators on one network rarely count each other's
  /// packets; even, because each trial's warm-up has the number below its own.
  uint8_t run_{static_cast<uint8_t>(std::random_device{}() & 0xfeU)};
  unsigned calibrations_{0};
  json calibration_;
};

}  // namespace headrace::traffic
