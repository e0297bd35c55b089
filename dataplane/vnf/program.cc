// SPDX-License-Identifier: Apache-2.0
#include "vnf/program.h"

#include <pthread.h>
#include <rte_cycles.h>
#include <rte_pci.h>

#include <algorithm>
#include <asio.hpp>
#include <bit>
#include <csignal>
#include <functional>
#include <thread>

#include "base/control_server.h"
#include "base/log.h"
#include "eal/eal.h"
#include "eal/mempool.h"
#include "eal/thread.h"
#include "vnf/device.h"
#include "vnf/program_config.h"
#include "vnf/worker.h"

namespace headrace::vnf {
namespace {

constexpr std::chrono::milliseconds kDeviceCheckInterval{100};
/// While a port has not had its peer yet: who has started the program waits for its links.
constexpr std::chrono::milliseconds kFirstLinksInterval{5};
constexpr std::chrono::seconds kFirstLinksPatience{10};

Result<> all_of(const std::string& path, const ConfigErrors& errors) {
  if (errors.empty()) return {};
  return fail("{}:\n  {}", path, fmt::join(errors, "\n  "));
}

/// The file's configuration and the function made from it.
struct Loaded {
  ProgramConfig program;
  std::unique_ptr<Function> function;
};

/// If `context.ports` is empty, the ports are those of the file, without known addresses. Fails
/// with all errors of the file.
Result<Loaded> load(const ProgramOptions& options, FunctionContext context) {
  auto json = read_config_file(options.config_path);
  if (!json) return tl::unexpected(json.error());
  ConfigErrors errors;
  ConfigReader reader(*json, "", errors);
  Loaded loaded{.program = read_program(reader), .function = nullptr};
  if (context.ports.empty()) {
    for (const auto& port : loaded.program.ports) {
      context.ports.push_back({.name = port.name, .mac = port.mac.value_or(MacAddress{})});
    }
  }
  ConfigReader function_reader(loaded.program.function, "function", errors);
  loaded.function = options.function->make(function_reader, context);
  function_reader.finish();
  if (auto result = all_of(options.config_path, errors); !result) {
    return tl::unexpected(result.error());
  }
  return loaded;
}

/// Enough for every descriptor, the transmit buffers, the cache, and packets that functions hold.
uint32_t buffers_for(const ProgramConfig& config) {
  uint32_t buffers = 2048;
  for (const auto& port : config.ports) {
    buffers += uint32_t{port.rx_descriptors} + port.tx_descriptors + Output::kBufferSize;
  }
  return std::bit_ceil(buffers) - 1;
}

/// Opens the devices in a separate thread: the probe of a virtio-user server blocks until the peer
/// connects, and meanwhile the program must serve requests and signals.
class Opener {
 public:
  ~Opener() { interrupt(); }

  /// Calls `done` in the opener's thread with the devices or the error.
  void start(std::vector<PortConfig> ports, rte_mempool* pool, asio::io_context& io,
             std::function<void(Result<std::vector<std::unique_ptr<Device>>>)> done) {
    struct sigaction wake {};
    wake.sa_handler = [](int) {};  // no SA_RESTART: the wait in accept() ends with EINTR
    sigaction(SIGUSR1, &wake, nullptr);
    thread_ = std::thread([this, ports = std::move(ports), pool, &io, done = std::move(done)] {
      const eal::DpdkThread registration;
      done(open(ports, pool, io));
      finished_.store(true);
    });
  }

  /// Ends the thread, even while it waits for a peer.
  void interrupt() {
    interrupted_.store(true);
    while (thread_.joinable()) {
      if (finished_.load()) {
        thread_.join();
        return;
      }
      pthread_kill(thread_.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

 private:
  Result<std::vector<std::unique_ptr<Device>>> open(const std::vector<PortConfig>& ports,
                                                    rte_mempool* pool, asio::io_context& io) {
    std::vector<std::unique_ptr<Device>> devices;
    for (const auto& port : ports) {
      if (interrupted_.load()) return fail("interrupted");
      auto device = Device::open(port, pool, io);
      if (!device) return tl::unexpected(device.error());
      devices.push_back(*std::move(device));
    }
    return devices;
  }

  std::thread thread_;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> finished_{false};
};

class Program {
 public:
  explicit Program(const ProgramOptions& options) : options_(options) {}
  ~Program() { opener_.interrupt(); }

  /// Opens everything but the devices, which are opened while it runs.
  Result<> open();
  /// Runs until stopped; fails if a device can't be opened.
  Result<> run();

 private:
  Result<> start_function();
  Result<> serve();
  Result<> reload();
  [[nodiscard]] Result<> ready() const;
  void stop(const Result<>& why);
  void watch_devices();
  void watch_signals();
  [[nodiscard]] FunctionContext context() const;

  ProgramOptions options_;
  ProgramConfig config_;
  asio::io_context io_;
  asio::signal_set signals_{io_, SIGTERM, SIGINT, SIGHUP};
  asio::steady_timer timer_{io_};
  Result<> outcome_;
  bool stopping_{false};
  std::chrono::steady_clock::time_point first_links_until_;
  std::unique_ptr<eal::Eal> eal_;  // members are destroyed in reverse order
  eal::Mempool pool_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<ControlServer> server_;
  Opener opener_;
};

FunctionContext Program::context() const {
  FunctionContext context{.ports = {}, .pool = pool_.get(), .tsc_hz = rte_get_tsc_hz()};
  for (const auto& device : devices_) context.ports.push_back({device->name(), device->mac()});
  return context;
}

/// Whether a port is a PCI device: `0000:00:04.0` or `00:04.0`, with options after a comma.
bool is_pci(const PortConfig& port) {
  const std::string device = port.devargs.substr(0, port.devargs.find(','));
  rte_pci_addr address{};
  return rte_pci_addr_parse(device.c_str(), &address) == 0;
}

Result<> Program::open() {
  auto checked = load(options_, {});
  if (!checked) return tl::unexpected(checked.error());
  config_ = std::move(checked->program);
  checked->function.reset();
  std::vector<std::string> plugins;
  for (const auto& plugin : config_.plugins) plugins.insert(plugins.end(), {"-d", plugin});
  auto eal = eal::Eal::init({.file_prefix = config_.file_prefix,
                             .main_cpu = config_.cpu,
                             .memory_mb = config_.memory_mb,
                             .allow_hugepages = config_.allow_hugepages,
                             .pci = std::ranges::any_of(config_.ports, is_pci),
                             .extra = std::move(plugins)});
  if (!eal) return tl::unexpected(eal.error());
  eal_ = *std::move(eal);
  auto pool = eal::make_mempool({.name = "vnf", .buffers = buffers_for(config_)});
  if (!pool) return tl::unexpected(pool.error());
  pool_ = *std::move(pool);
  watch_signals();
  if (auto served = serve(); !served) return served;
  opener_.start(config_.ports, pool_.get(), io_, [this](auto opened) {
    // The handler must be copyable; a shared pointer makes the devices so.
    auto shared = std::make_shared<decltype(opened)>(std::move(opened));
    asio::post(io_, [this, shared] {
      if (!*shared) {
        stop(tl::unexpected(shared->error()));
        return;
      }
      devices_ = std::move(**shared);
      if (auto started = start_function(); !started) stop(started);
    });
  });
  return {};
}

Result<> Program::run() {
  io_.run();
  return outcome_;
}

void Program::stop(const Result<>& why) {
  if (!stopping_) outcome_ = why;
  stopping_ = true;
  io_.stop();
}

Result<> Program::start_function() {
  auto loaded = load(options_, context());
  if (!loaded) return tl::unexpected(loaded.error());
  worker_ = std::make_unique<Worker>(devices_, std::move(loaded->function),
                                     Worker::Options{.cpu = config_.cpu,
                                                     .idle = config_.idle,
                                                     .sleep = config_.sleep,
                                                     .burst = config_.burst});
  if (auto started = worker_->start(); !started) {
    worker_.reset();
    return started;
  }
  first_links_until_ = std::chrono::steady_clock::now() + kFirstLinksPatience;
  watch_devices();
  log::info("{} is running", options_.function->name);
  return {};
}

Result<> Program::ready() const {
  if (worker_) return {};
  return fail(
      "not ready: the ports are still being opened; a virtio-user server waits for its "
      "peer");
}

Result<> Program::serve() {
  if (options_.ctl_path.empty()) return {};
  auto server = ControlServer::open(io_, options_.ctl_path,
                                    {.name = "headrace-vnf",
                                     .eal = [this] { return eal_->status(); },
                                     .shutdown = [this] { stop({}); }});
  if (!server) return tl::unexpected(server.error());
  server_ = *std::move(server);
  server_->on("counters", [this](const Json&) -> Result<Json> {
    if (auto is_ready = ready(); !is_ready) return tl::unexpected(is_ready.error());
    Json counters = worker_->counters();
    for (const auto& device : devices_) counters["ports"][device->name()] = device->status();
    return counters;
  });
  server_->on("cycles", [this](const Json&) -> Result<Json> {
    if (auto is_ready = ready(); !is_ready) return tl::unexpected(is_ready.error());
    return worker_->cycles();
  });
  server_->on("reload", [this](const Json&) -> Result<Json> {
    if (auto reloaded = reload(); !reloaded) return tl::unexpected(reloaded.error());
    return Json{{"reloaded", true}};
  });
  return {};
}

Result<> Program::reload() {
  if (auto is_ready = ready(); !is_ready) return is_ready;
  auto loaded = load(options_, context());
  if (!loaded) return tl::unexpected(loaded.error());
  if (loaded->program.ports != config_.ports || loaded->program.cpu != config_.cpu) {
    return fail("{}: ports and cpu can't change while running; restart for that",
                options_.config_path);
  }
  worker_->replace(std::move(loaded->function));
  log::info("reloaded {}", options_.config_path);
  return {};
}

void Program::watch_devices() {
  for (const auto& device : devices_) {
    if (auto kept = device->update_link(); !kept) {
      stop(kept);
      return;
    }
  }
  const bool all_up =
      std::ranges::all_of(devices_, [](const auto& device) { return device->is_up(); });
  if (all_up) first_links_until_ = {};
  const bool waits = std::chrono::steady_clock::now() < first_links_until_;
  timer_.expires_after(waits ? kFirstLinksInterval : kDeviceCheckInterval);
  timer_.async_wait([this](asio::error_code code) {
    if (!code) watch_devices();
  });
}

void Program::watch_signals() {
  signals_.async_wait([this](asio::error_code code, int signal) {
    if (code) return;
    if (signal != SIGHUP) {
      stop({});
      return;
    }
    if (auto reloaded = reload(); !reloaded) log::error("{}", reloaded.error().message);
    watch_signals();
  });
}

}  // namespace

Result<> check_config(const ProgramOptions& options) {
  const auto loaded = load(options, {});
  if (!loaded) return tl::unexpected(loaded.error());
  return {};
}

Result<> run_program(const ProgramOptions& options) {
  Program program(options);
  if (auto opened = program.open(); !opened) return opened;
  return program.run();
}

}  // namespace headrace::vnf
