// SPDX-License-Identifier: Apache-2.0
// headrace-switch: an OpenFlow switch that stock OVS tools manage through a stock ovsdb-server.
#include <rte_eal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/control_server.h"
#include "base/log.h"
#include "base/version.h"
#include "eal/eal.h"
#include "eal/hugepages.h"
#include "match/fields/simd.h"
#include "ovsdb/client.h"
#include "runtime/commands/commands.h"
#include "runtime/switch/switch.h"
#include "runtime/switch/switch_report.h"
#include "unixctl/pidfile.h"
#include "unixctl/server.h"

namespace headrace {
namespace {

struct Arguments {
  std::string db;
  std::string rundir;
  std::string control;
  std::string unixctl;
  std::string pidfile;
  std::string cpu_mask;
  uint32_t control_cpu = 0;
  bool no_huge = false;
  bool pci = false;
  uint32_t memory_mb = 256;
  std::string log_level = "info";
  std::string eal_log_level = "notice";
  std::vector<std::string> eal_extra;
  std::string file_prefix;
  std::string simd = "auto";
  TlsFiles tls;
};

/// The CPUs of a hexadecimal mask, as pmd-cpu-mask is written.
Result<std::vector<unsigned>> parse_mask(const std::string& mask) {
  size_t end = 0;
  uint64_t bits = 0;
  try {
    bits = std::stoull(mask, &end, 16);
  } catch (const std::exception&) {
    end = 0;
  }
  if (end != mask.size() || bits == 0) {
    return fail("--cpu-mask '{}': give a hexadecimal mask of CPUs, 2 for CPU 1", mask);
  }
  std::vector<unsigned> cpus;
  for (; bits != 0; bits &= bits - 1) cpus.push_back(static_cast<unsigned>(std::countr_zero(bits)));
  return cpus;
}

/// Before any table is made: which variants of the data path's loops are to run.
Result<> choose_simd(const std::string& wanted) {
  if (wanted == "auto") return {};
  const std::optional<match::Simd> simd = match::simd_named(wanted);
  if (simd) match::set_simd(*simd);
  if (match::simd() != simd) return fail("--simd {}: this processor has it not", wanted);
  return {};
}

/// Removes headrace-switch.PID.ctl of processes that are gone: each run has a name of its own.
void remove_dead_unixctl_sockets(const std::string& rundir) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(rundir, error)) {
    const std::string name = entry.path().filename().string();
    int pid = 0;
    int end = 0;
    if (std::sscanf(name.c_str(), "headrace-switch.%d.ctl%n", &pid, &end) != 1 ||
        static_cast<size_t>(end) != name.size() || !entry.is_socket(error)) {
      continue;
    }
    if (::kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove(entry.path(), error);
  }
}

void add_methods(ControlServer& server, runtime::Switch& the_switch) {
  using nlohmann::json;
  using Report = json (*)(const runtime::Switch&);
  const auto report = [&](const char* method, Report make) {
    server.on(method,
              [&the_switch, make](const json&) -> Result<json> { return make(the_switch); });
  };
  report("show", runtime::report_show);
  report("tables", runtime::report_tables);
  report("drops", runtime::report_drops);
  server.on("links", [&the_switch](const json&) -> Result<json> {
    return runtime::report_links(the_switch);
  });
  server.on("rebalance", [&the_switch](const json&) -> Result<json> {
    the_switch.rebalance();
    return runtime::report_show(the_switch).at("workers");
  });
  server.on("cycles", [&the_switch](const json& params) -> Result<json> {
    if (params.contains("stages")) {
      the_switch.set_stage_timing(params.at("stages").get<bool>());
    }
    return runtime::report_cycles(the_switch);
  });
}

Result<> run(const Arguments& arguments) {
  if (Result<> chosen = choose_simd(arguments.simd); !chosen) return chosen;
  std::vector<unsigned> cpus{std::max(std::thread::hardware_concurrency(), 1u) - 1};
  if (!arguments.cpu_mask.empty()) {
    Result<std::vector<unsigned>> parsed = parse_mask(arguments.cpu_mask);
    if (!parsed) return tl::unexpected(parsed.error());
    cpus = std::move(*parsed);
  }
  std::error_code error;
  std::filesystem::create_directories(arguments.rundir, error);
  if (error) return fail("--rundir {}: {}", arguments.rundir, error.message());

  const auto eal = eal::Eal::init({.file_prefix = arguments.file_prefix,
                                   .main_cpu = arguments.control_cpu,
                                   .memory_mb = arguments.memory_mb,
                                   .allow_hugepages = !arguments.no_huge,
                                   .pci = arguments.pci,
                                   .log_level = arguments.eal_log_level,
                                   .extra = arguments.eal_extra});
  if (!eal) return tl::unexpected(eal.error());

  asio::io_context io(1);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&io](const asio::error_code& aborted, int signal) {
    if (aborted) return;
    log::info("signal {}: leaving", signal);
    io.stop();
  });

  auto the_switch = runtime::Switch::make(io, {.rundir = arguments.rundir,
                                               .memory_mb = arguments.memory_mb,
                                               .default_cpus = cpus,
                                               .tls = arguments.tls});
  if (!the_switch) return tl::unexpected(the_switch.error());

  const std::string control =
      arguments.control.empty() ? arguments.rundir + "/headrace-switch.ctl" : arguments.control;
  const std::string pidfile_path =
      arguments.pidfile.empty() ? arguments.rundir + "/headrace-switch.pid" : arguments.pidfile;
  const std::string unixctl_path =
      arguments.unixctl.empty()
          ? fmt::format("{}/headrace-switch.{}.ctl", arguments.rundir, ::getpid())
          : arguments.unixctl;
  auto server = ControlServer::open(
      io, control,
      {"headrace-switch", [&eal] { return (*eal)->status(); }, [&io] { io.stop(); },
       fmt::format("use: ovs-appctl -t {} COMMAND", unixctl_path)});
  if (!server) return tl::unexpected(server.error());
  // After the control socket, which tells of a second switch in this directory.
  remove_dead_unixctl_sockets(arguments.rundir);
  unixctl::Commands commands(fmt::format("headrace-switch (Headrace) {}\n{}", kVersion,
                                         (*the_switch)->info().dpdk_version));
  // After the reply, whose write is then started.
  runtime::add_commands(commands, **the_switch, [&io] { asio::post(io, [&io] { io.stop(); }); });
  auto unixctl_server = unixctl::Server::open(io, unixctl_path, commands);
  if (!unixctl_server) return tl::unexpected(unixctl_server.error());
  const auto pidfile = unixctl::Pidfile::make(pidfile_path);
  if (!pidfile) return tl::unexpected(pidfile.error());
  add_methods(**server, **the_switch);

  ovsdb::Client client(io, arguments.db, **the_switch, &(*the_switch)->tls());
  (*the_switch)->on_status_change([&client] { client.refresh_soon(); });
  if (Result<> started = client.start(); !started) return started;

  io.run();
  (*the_switch)->on_status_change(nullptr);
  // Devices go before the database's lock does: who waits for the lock will open the same ones.
  (*the_switch)->clear();
  client.stop();
  return {};
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  headrace::Arguments arguments;
  CLI::App app("An OpenFlow switch for NFV, managed like Open vSwitch by an ovsdb-server.");
  app.set_version_flag("--version",
                       std::string("headrace-switch ") + std::string(headrace::kVersion));
  app.add_option("--db", arguments.db, "the ovsdb-server: unix:PATH, tcp:IP:PORT or ssl:IP:PORT")
      ->required();
  app.add_option("--rundir", arguments.rundir, "where sockets go")->required();
  app.add_option("--ctl", arguments.control, "control socket [RUNDIR/headrace-switch.ctl]");
  app.add_option("--unixctl", arguments.unixctl,
                 "socket for ovs-appctl [RUNDIR/headrace-switch.PID.ctl]");
  app.add_option("--pidfile", arguments.pidfile,
                 "by which `ovs-appctl -t headrace-switch` finds it [RUNDIR/headrace-switch.pid]");
  app.add_option("--cpu-mask", arguments.cpu_mask,
                 "hexadecimal mask of the workers' CPUs, while pmd-cpu-mask is not set [last CPU]");
  app.add_option("--simd", arguments.simd,
                 "vector instructions of the packet path: auto (the best there are), portable (the "
                 "baseline that everything is built for), avx2, avx512")
      ->check(CLI::IsMember({"auto", "portable", "avx2", "avx512"}))
      ->capture_default_str();
  app.add_option("--control-cpu", arguments.control_cpu, "CPU of all else [0]");
  app.add_flag("--no-huge", arguments.no_huge, "do without hugepages");
  app.add_flag("--pci", arguments.pci, "scan the PCI bus, for ports of physical devices");
  app.add_option("--mem", arguments.memory_mb, "memory for DPDK, MiB")->capture_default_str();
  app.add_option("--log-level", arguments.log_level, "trace, debug, info, warning, error, off")
      ->capture_default_str();
  app.add_option("--dpdk-log-level", arguments.eal_log_level, "DPDK's own log level")
      ->capture_default_str();
  app.add_option("--eal-arg", arguments.eal_extra, "a further EAL argument, may be repeated")
      ->allow_extra_args(false);
  app.add_option("--file-prefix", arguments.file_prefix, "DPDK's file prefix [headrace-PID]");
  app.add_option("--private-key", arguments.tls.private_key,
                 "PEM file for ssl: targets, while OVSDB has no SSL row");
  app.add_option("--certificate", arguments.tls.certificate, "likewise: our certificate");
  app.add_option("--ca-cert", arguments.tls.ca_cert, "likewise: of the authority that we trust");
  CLI11_PARSE(app, argc, argv);

  headrace::Result<> heap;
  if (!arguments.no_huge) heap = headrace::eal::use_hugepages_for_heap(argv);
  headrace::Result<> result = headrace::log::init("headrace-switch", arguments.log_level);
  if (!heap) headrace::log::warn("{}", heap.error().message);
  if (result) result = headrace::run(arguments);
  if (!result) {
    std::fprintf(stderr, "headrace-switch: %s\n", result.error().message.c_str());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
