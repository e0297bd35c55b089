// SPDX-License-Identifier: Apache-2.0
// headrace-traffic: generates and analyses traffic, told what to do on its control socket.
#include <CLI/CLI.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <csignal>

#include "base/control_server.h"
#include "base/log.h"
#include "base/version.h"
#include "eal/eal.h"
#include "traffic/trial/service.h"
#include "traffic/trial/worker_threads.h"

namespace {

using headrace::Result;

struct Options {
  std::string control_path;
  std::vector<uint32_t> cpus;
  std::optional<uint32_t> control_cpu;
  headrace::eal::EalOptions eal;
  bool no_huge{false};
  bool pci{false};
  std::string log_level{"info"};
};

Result<> serve(Options& options) {
  if (auto ok = headrace::log::init("headrace-traffic", options.log_level); !ok) return ok;
  options.eal.main_cpu = options.control_cpu.value_or(options.cpus.front());
  options.eal.allow_hugepages = !options.no_huge;
  options.eal.pci = options.pci;
  auto eal = headrace::eal::Eal::init(options.eal);
  if (!eal) return tl::unexpected(eal.error());
  auto threads = headrace::traffic::WorkerThreads::start(options.cpus);
  if (!threads) return tl::unexpected(threads.error());

  asio::io_context io;
  headrace::traffic::Service service(io, **threads);
  const auto end = [&] {
    service.stop_trial();
    io.stop();
  };
  auto server = headrace::ControlServer::open(
      io, options.control_path,
      {.name = "headrace-traffic", .eal = [&] { return (*eal)->status(); }, .shutdown = end});
  if (!server) return tl::unexpected(server.error());
  service.serve(**server);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const asio::error_code&, int) { end(); });
  headrace::log::info("ready on {}", options.control_path);
  io.run();
  server->reset();
  threads->reset();  // joins: workers stop before the service and its trial are destroyed
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Generates and analyses traffic; controlled by JSON on a Unix socket."};
  app.set_version_flag("--version", std::string(headrace::kVersion));
  app.add_option("--ctl", options.control_path, "path of the control socket")->required();
  app.add_option("--cpu", options.cpus, "CPUs of the workers, which poll during trials: 2 or 2,3")
      ->required()
      ->delimiter(',');
  app.add_option("--control-cpu", options.control_cpu,
                 "CPU of the control thread; default: the first of --cpu");
  app.add_flag("--pci", options.pci, "scan the PCI bus, for ports of physical devices");
  app.add_flag("--no-huge", options.no_huge, "use ordinary pages even if there are hugepages");
  app.add_option("--mem", options.eal.memory_mb, "MiB of memory for packets")
      ->capture_default_str();
  app.add_option("--file-prefix", options.eal.file_prefix,
                 "DPDK's name for this process; default: headrace-<pid>");
  app.add_option("--log-level", options.log_level, "trace, debug, info, warning, error or off")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (const auto ended = serve(options); !ended) {
    fmt::print(stderr, "headrace-traffic: {}\n", ended.error().message);
    return 1;
  }
  return 0;
}
