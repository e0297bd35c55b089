// SPDX-License-Identifier: Apache-2.0
#include "traffic/trial/service.h"

#include <asio/post.hpp>

#include "base/log.h"
#include "traffic/frames/params.h"
#include "traffic/trial/calibration.h"
#include "traffic/trial/report.h"
#include "traffic/trial/trial_options.h"

namespace headrace::traffic {

using nlohmann::json;

Service::~Service() {
  // A running trial uses ports and streams; the workers must have ended before this.
  trial_.reset();
  calibrating_.reset();
}

void Service::serve(ControlServer& server) {
  const auto on = [&](const char* name, Result<json> (Service::*method)(const json&)) {
    server.on(name, [this, method](const json& params) { return (this->*method)(params); });
  };
  const auto on_async = [&](const char* name, void (Service::*method)(const json&, const Reply&)) {
    server.on_async(name, [this, method](const json& params, const Reply& reply) {
      (this->*method)(params, reply);
    });
  };
  on_async("add_port", &Service::add_port);
  on("remove_port", &Service::remove_port);
  on("ports", &Service::list_ports);
  on("configure", &Service::configure);
  on("start", &Service::start);
  on("read", &Service::read);
  on_async("trial", &Service::trial);
  on_async("stop", &Service::stop);
  on_async("calibrate", &Service::calibrate);
}

void Service::stop_trial() {
  if (trial_) trial_->stop();
  if (calibrating_) calibrating_->stop();
}

Result<> Service::idle() const {
  if (calibrating_) return fail_as("busy", "a calibration runs; wait for its end");
  if (opener_.busy()) return fail_as("busy", "a port is being added; wait for its peer");
  if (running_) return fail_as("busy", "a trial runs; wait for its end or stop it");
  return {};
}

void Service::add_port(const json& params, const Reply& reply) {
  if (auto ok = idle(); !ok) return reply(tl::unexpected(ok.error()));
  PortOptions options;
  double wait_s = 30;
  ParamReader reader(params, "");
  reader.required("name", options.name);
  reader.required("devargs", options.devargs);
  reader.optional("mac", options.mac);
  if (reader.optional("n_descriptors", options.descriptors) && options.descriptors == 0) {
    reader.reject("n_descriptors", "must be at least 1");
  }
  reader.optional("max_frame", options.max_frame);
  if (options.max_frame < SizeProfile::kSmallest || options.max_frame > SizeProfile::kLargest) {
    reader.reject("max_frame", "must be from {} to {}", SizeProfile::kSmallest,
                  SizeProfile::kLargest);
  }
  if (reader.optional("wait_s", wait_s) && !(wait_s > 0 && wait_s <= 3600)) {
    reader.reject("wait_s", "must be above 0 and at most 3600");
  }
  if (auto ok = reader.finish(); !ok) return reply(tl::unexpected(ok.error()));
  if (ports_.contains(options.name)) {
    return reply(fail_as("exists", "/name: port {} already exists; remove it first", options.name));
  }
  auto memif = port::memif::read_net_memif(options.devargs);
  if (!memif) return reply(fail_as("bad_devargs", "/devargs: {}", memif.error().message));
  auto shm = ShmPort::read(options.devargs);
  if (!shm) return reply(fail_as("bad_devargs", "/devargs: {}", shm.error().message));
  const auto added = [this, reply](Result<std::unique_ptr<TrafficPort>> port) {
    if (!port) return reply(tl::unexpected(port.error()));
    json answer = (*port)->to_json();
    log::info("port {}: {}", (*port)->name(), answer["devargs"].get<std::string>());
    ports_.emplace((*port)->name(), std::move(*port));
    reply(std::move(answer));
  };
  if (*memif) return added(TrafficPort::open_memif(options, std::move(**memif), io_));
  if (*shm) return added(TrafficPort::open_shm(options, **shm));
  const auto wait = std::chrono::milliseconds(static_cast<int64_t>(wait_s * 1000));
  opener_.open(options, wait, added);
}

Result<json> Service::remove_port(const json& params) {
  if (auto ok = idle(); !ok) return tl::unexpected(ok.error());
  std::string name;
  ParamReader reader(params, "");
  reader.required("name", name);
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  if (!ports_.contains(name)) return fail_as("not_found", "/name: no port {}", name);
  // Its streams may use the port.
  trial_.reset();
  std::erase_if(streams_, [&](const Stream& s) { return s.tx_port == name || s.rx_port == name; });
  ports_.erase(name);
  return json::object();
}

Result<json> Service::list_ports(const json& params) {
  ParamReader reader(params, "");
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  json list = json::array();
  for (const auto& [name, port] : ports_) list.push_back(port->to_json());
  return list;
}

Result<json> Service::configure(const json& params) {
  if (auto ok = idle(); !ok) return tl::unexpected(ok.error());
  json list;
  ParamReader reader(params, "");
  reader.required("streams", list);
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  auto streams = read_streams(list, "/streams");
  if (!streams) return tl::unexpected(streams.error());
  for (size_t i = 0; i < streams->size(); ++i) {
    const Stream& stream = (*streams)[i];
    for (const auto& [key, port] :
         {std::pair("tx_port", stream.tx_port), std::pair("rx_port", stream.rx_port)}) {
      const auto found = ports_.find(port);
      if (found == ports_.end()) {
        return fail_as("not_found", "/streams/{}/{}: no port {}; add_port first", i, key, port);
      }
      if (stream.sizes.largest() > found->second->max_frame()) {
        return fail_as("bad_params",
                       "/streams/{}/size: port {} takes frames up to {}; add it with max_frame", i,
                       port, found->second->max_frame());
      }
    }
  }
  trial_.reset();
  streams_ = std::move(*streams);
  json described = json::array();
  for (const Stream& stream : streams_) {
    described.push_back(stream.to_json());
  }
  return json{{"streams", std::move(described)}};
}

Result<> Service::check_links() const {
  for (const Stream& stream : streams_) {
    for (const std::string& name : {stream.tx_port, stream.rx_port}) {
      if (!ports_.at(name)->link_up()) {
        return fail_as("link_down", "stream {}: port {} has no link; is its peer running?",
                       stream.name, name);
      }
    }
  }
  return {};
}

Result<> Service::launch(const TrialOptions& options) {
  if (auto ok = idle(); !ok) return ok;
  if (streams_.empty()) return fail_as("no_streams", "no streams; configure first");
  if (auto ok = check_links(); !ok) return ok;
  std::vector<TrialStream> trial_streams;
  for (const Stream& stream : streams_) {
    trial_streams.push_back({.stream = &stream,
                             .tx = ports_.at(stream.tx_port).get(),
                             .rx = ports_.at(stream.rx_port).get()});
  }
  std::vector<const TrafficPort*> polled;
  for (const auto& [name, port] : ports_) polled.push_back(port.get());
  run_ = static_cast<uint8_t>(run_ + 2);
  trial_ = std::make_unique<Trial>(trial_streams, polled, options, run_, threads_.size());
  running_ = true;
  threads_.run([this](size_t worker) { trial_->run(worker); },
               [this] { asio::post(io_, [this] { finished(); }); });
  return {};
}

void Service::finished() {
  running_ = false;
  const json answer = result();
  for (const Reply& reply : std::exchange(waiting_, {})) reply(answer);
}

json Service::result() const {
  json answer = trial_json(*trial_);
  answer["running"] = running_;
  answer["calibration"] = calibration_;
  json& workers = answer["generator"]["workers"];
  for (size_t i = 0; i < workers.size(); ++i) workers[i]["cpu"] = threads_.cpus()[i];
  return answer;
}

void Service::trial(const json& params, const Reply& reply) {
  const auto options = read_trial_options(params, streams_, /*needs_end=*/true);
  if (!options) return reply(tl::unexpected(options.error()));
  if (auto launched = launch(*options); !launched) {
    return reply(tl::unexpected(launched.error()));
  }
  waiting_.push_back(reply);
}

Result<json> Service::start(const json& params) {
  const auto options = read_trial_options(params, streams_, /*needs_end=*/false);
  if (!options) return tl::unexpected(options.error());
  if (auto launched = launch(*options); !launched) return tl::unexpected(launched.error());
  return json::object();
}

Result<json> Service::read(const json& params) {
  ParamReader reader(params, "");
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  if (!trial_) return fail_as("no_trial", "no trial has been run; start or trial first");
  return result();
}

void Service::stop(const json& params, const Reply& reply) {
  ParamReader reader(params, "");
  if (auto ok = reader.finish(); !ok) return reply(tl::unexpected(ok.error()));
  if (!trial_) return reply(fail_as("no_trial", "no trial has been run; start first"));
  if (!running_) return reply(result());
  trial_->stop();
  waiting_.push_back(reply);
}

void Service::calibrate(const json& params, const Reply& reply) {
  if (auto ok = idle(); !ok) return reply(tl::unexpected(ok.error()));
  auto options = CalibrationOptions::read(params);
  if (!options) return reply(tl::unexpected(options.error()));
  auto made = Calibration::make(*options, calibrations_++, threads_.size());
  if (!made) return reply(tl::unexpected(made.error()));
  calibrating_ = std::move(*made);
  const auto finished = [this, reply] {
    calibration_ = calibrating_->to_json();
    // Destroyed with its device and buffers before the reply, after which the client may start the
    // next one.
    calibrating_.reset();
    reply(calibration_);
  };
  threads_.run([this](size_t worker) { calibrating_->run(worker); },
               [this, finished] { asio::post(io_, finished); });
}

}  // namespace headrace::traffic
