// SPDX-License-Identifier: Apache-2.0
// headrace-channel: a producer and a consumer, each a process on its own core, connected by a
// channel. Used by `headrace bench channels` (docs/bench.md).
//
// Reads requests from stdin and writes replies to stdout, one line of JSON each:
//
//   > {"forked": {"producer": 4711, "consumer": 4712}}     nothing is open yet
//   < {"do": "open"}
//   > {"open": true}
//   < {"do": "measure", "length": 60, "touch": true, "settle_s": 0.1, "seconds": 0.4}
//   > {"packets": ..., "sent": ..., "foreign": 0, "corrupt": 0, "seconds": 0.4001}
//
// It exits at the end of stdin, and stops both ends. A failed request gives {"error": "..."}.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/log.h"
#include "channel/control_block.h"
#include "channel/ethdev_channel.h"
#include "channel/ring_channel.h"
#include "channel/shm_channel.h"
#include "eal/thread.h"

namespace headrace::channel {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kPatience = std::chrono::seconds(15);
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr uint32_t kPollsPerCheck = 64;

struct Options {
  std::string kind;
  std::array<uint32_t, 2> cpus{0, 1};
  bool yield{false};
  std::string networks{"here"};
  RingOptions ring;
  ShmOptions shm;
  EthdevOptions ethdev;
};

Result<std::unique_ptr<Channel>> make_channel(const Options& options) {
  if (options.kind == "ring") return make_ring_channel(options.ring);
  if (options.kind == "shm") return make_shm_channel(options.shm);
  return make_ethdev_channel(options.ethdev);
}

/// Polls until the command or the window changes; counts in `status`.
void run(End& end, const ControlBlock& control, EndStatus& status, bool yield) {
  const uint32_t window = control.window.load(std::memory_order_acquire);
  const Work work{.length = control.length.load(), .touch = control.touch.load()};
  while (control.command.load(std::memory_order_acquire) == Command::run &&
         control.window.load(std::memory_order_relaxed) == window) {
    for (uint32_t i = 0; i < kPollsPerCheck; ++i) {
      const PollResult done = end.poll(work);
      if (done.packets > 0) {
        status.packets.add(done.packets);
      } else if (yield) {
        sched_yield();
      }
      if (done.foreign > 0) status.foreign.add(done.foreign);
      if (done.corrupt > 0) status.corrupt.add(done.corrupt);
    }
  }
}

/// The main function of an end's process; returns its exit status.
int run_end(Channel& channel, Role role, const Options& options, ControlBlock& control) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  EndStatus& status = role == Role::producer ? control.producer : control.consumer;
  const auto failed = [&status](const Error& error) {
    std::strncpy(status.error.data(), error.message.c_str(), status.error.size() - 1);
    status.state.store(State::failed, std::memory_order_release);
    return 1;
  };
  if (options.networks == "apart" && unshare(CLONE_NEWNET) != 0) {
    return failed(Error{fmt::format("network namespace: {}", std::strerror(errno))});
  }
  const uint32_t cpu = options.cpus[static_cast<size_t>(role)];
  status.state.store(State::forked, std::memory_order_release);
  while (control.command.load() == Command::wait) std::this_thread::sleep_for(kPause);
  if (auto pinned = eal::pin_this_thread(cpu); !pinned) return failed(pinned.error());
  auto end = channel.open(role, cpu);
  if (!end) return failed(end.error());
  status.state.store(State::open, std::memory_order_release);
  for (;;) {
    switch (control.command.load(std::memory_order_acquire)) {
      case Command::quit:
        return 0;
      case Command::run:
        run(**end, control, status, options.yield);
        break;
      default:
        std::this_thread::sleep_for(kPause);
    }
  }
}

/// The controlling process, which forks the two ends and stops them.
class Controller {
 public:
  Controller(Channel& channel, const Options& options) {
    void* at = mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    control_ = new (at) ControlBlock;
    for (const Role role : {Role::consumer, Role::producer}) {
      const auto index = static_cast<size_t>(role);
      pids_[index] = fork();
      if (pids_[index] == 0) {
        _exit(run_end(channel, role, options, *control_));
      }
    }
  }
  ~Controller() {
    if (control_ == nullptr) return;
    control_->command.store(Command::quit);
    for (const pid_t pid : pids_) wait_or_kill(pid);
  }
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  Result<Json> forked() {
    if (control_ == nullptr || std::ranges::any_of(pids_, [](pid_t pid) { return pid < 0; })) {
      return fail("the two ends could not be forked: {}", std::strerror(errno));
    }
    const auto deadline = Clock::now() + kPatience;
    for (const EndStatus* end : {&control_->consumer, &control_->producer}) {
      while (end->state.load(std::memory_order_acquire) == State::starting) {
        if (auto alive = check(deadline, "started"); !alive) return tl::unexpected(alive.error());
        std::this_thread::sleep_for(kPause);
      }
    }
    return Json{{"forked", {{"producer", pids_[0]}, {"consumer", pids_[1]}}}};
  }

  Result<Json> open() {
    control_->command.store(Command::pause);
    const auto deadline = Clock::now() + kPatience;
    for (EndStatus* end : {&control_->consumer, &control_->producer}) {
      while (end->state.load(std::memory_order_acquire) == State::forked) {
        if (auto alive = check(deadline, "opened"); !alive) return tl::unexpected(alive.error());
        std::this_thread::sleep_for(kPause);
      }
      if (end->state.load() == State::failed) return fail("{}", end->error.data());
    }
    return Json{{"open", true}};
  }

  Result<Json> measure(const Json& request) {
    if (control_->consumer.state.load() != State::open) return fail("\"measure\" before \"open\"");
    const auto length = request.value("length", 60U);
    const auto seconds = request.value("seconds", 0.4);
    const auto settle = request.value("settle_s", 0.1);
    if (length < 60 || length > 2000) return fail("length {}: 60 to 2000", length);
    if (!(seconds > 0 && seconds <= 60 && settle >= 0 && settle <= 60)) {
      return fail("seconds {}, settle_s {}: up to 60", seconds, settle);
    }
    control_->length.store(length);
    control_->touch.store(request.value("touch", false));
    control_->window.fetch_add(1, std::memory_order_release);
    control_->command.store(Command::run, std::memory_order_release);
    std::this_thread::sleep_for(std::chrono::duration<double>(settle));
    const Reading first = read();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const Reading last = read();
    control_->command.store(Command::pause, std::memory_order_release);
    if (auto alive = check(Clock::time_point::max(), "run"); !alive) {
      return tl::unexpected(alive.error());
    }
    return Json{{"packets", last.packets - first.packets},
                {"sent", last.sent - first.sent},
                {"foreign", last.foreign - first.foreign},
                {"corrupt", last.corrupt - first.corrupt},
                {"seconds", std::chrono::duration<double>(last.at - first.at).count()}};
  }

 private:
  struct Reading {
    Clock::time_point at;
    uint64_t packets;
    uint64_t sent;
    uint64_t foreign;
    uint64_t corrupt;
  };

  [[nodiscard]] Reading read() const {
    const EndStatus& got = control_->consumer;
    return {Clock::now(), got.packets.read(), control_->producer.packets.read(), got.foreign.read(),
            got.corrupt.read()};
  }

  /// Whether both ends are running before the deadline.
  Result<> check(Clock::time_point deadline, const char* what) {
    for (pid_t& pid : pids_) {
      const pid_t ended = pid > 0 ? waitpid(pid, nullptr, WNOHANG) : pid;
      if (ended == 0) continue;
      const auto index = static_cast<size_t>(&pid - pids_.data());
      const EndStatus& status = index == 0 ? control_->producer : control_->consumer;
      pid = 0;
      if (status.state.load() == State::failed) return fail("{}", status.error.data());
      return fail("the {} ended before it {}", index == 0 ? "producer" : "consumer", what);
    }
    if (Clock::now() > deadline) return fail("the ends have not {} within 15 s", what);
    return {};
  }

  static void wait_or_kill(pid_t pid) {
    if (pid <= 0) return;
    const auto deadline = Clock::now() + std::chrono::seconds(5);
    while (waitpid(pid, nullptr, WNOHANG) == 0) {
      if (Clock::now() > deadline) kill(pid, SIGKILL);
      std::this_thread::sleep_for(kPause);
    }
  }

  ControlBlock* control_{nullptr};
  std::array<pid_t, 2> pids_{};
};

/// By Role.
static_assert(static_cast<size_t>(Role::producer) == 0 && static_cast<size_t>(Role::consumer) == 1);

Result<Json> answer(Controller& controller, const std::string& line) {
  const Json request = Json::parse(line, nullptr, false);
  const std::string what = request.is_object() ? request.value("do", "") : "";
  if (what == "open") return controller.open();
  if (what == "measure") return controller.measure(request);
  return fail("unknown request: {}; \"open\" or \"measure\"", line.substr(0, 80));
}

void print_reply(const Result<Json>& what) {
  const Json line = what ? *what : Json{{"error", what.error().message}};
  std::cout << line.dump() << std::endl;
}

int serve(const Options& options) {
  if (options.networks == "together" && unshare(CLONE_NEWNET) != 0) {
    print_reply(fail("network namespace: {}", std::strerror(errno)));
    return 1;
  }
  auto channel = make_channel(options);
  if (!channel) {
    print_reply(tl::unexpected(channel.error()));
    return 1;
  }
  Controller controller(**channel, options);
  const Result<Json> forked = controller.forked();
  print_reply(forked);
  if (!forked) return 1;
  for (std::string line; std::getline(std::cin, line);) print_reply(answer(controller, line));
  return 0;
}

}  // namespace
}  // namespace headrace::channel

int main(int argc, char** argv) {
  CLI::App app{
      "A producer and a consumer on a channel of one kind, for `headrace bench channels`."};
  headrace::channel::Options o;
  app.add_option("kind", o.kind, "ring: the bare ring; shm: Headrace ports; ethdev: DPDK devices")
      ->required()
      ->check(CLI::IsMember({"ring", "shm", "ethdev"}));
  app.add_option("--producer-core", o.cpus[0], "CPU of the producer");
  app.add_option("--consumer-core", o.cpus[1], "CPU of the consumer");
  app.add_flag("--yield", o.yield, "an end without packets yields its CPU");
  app.add_option("--networks", o.networks,
                 "here; together: both ends in one new network namespace; apart: in two")
      ->check(CLI::IsMember({"here", "together", "apart"}));
  app.add_flag("--one-way", o.ring.one_way, "ring: no buffers are returned");
  app.add_option("--buffers", o.shm.buffers, "ring, shm: buffers in circulation");
  app.add_option("--socket", o.shm.socket, "shm: of the switch's group");
  app.add_option("--producer-port", o.shm.producer, "shm: its name in the switch");
  app.add_option("--consumer-port", o.shm.consumer, "shm: its name in the switch");
  app.add_flag("!--no-direct", o.shm.direct, "shm: buffers are freed, not returned by a link");
  app.add_option("--producer", o.ethdev.producer, "ethdev: the producer's device");
  app.add_option("--consumer", o.ethdev.consumer, "ethdev: the consumer's device");
  app.add_option("--memory", o.ethdev.memory_mb, "ethdev: MiB of memory of each end");
  CLI11_PARSE(app, argc, argv);
  o.ring.buffers = o.shm.buffers;
  if (const auto logging = headrace::log::init("headrace-channel", "warning"); !logging) return 1;
  return headrace::channel::serve(o);
}
