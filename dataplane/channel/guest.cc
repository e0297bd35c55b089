// SPDX-License-Identifier: Apache-2.0
// headrace-guest: the network namespace that it is started in, as the guest of a vhost-user port.
// Used by `headrace bench tcp` (docs/bench.md).
//
// What QEMU and the guest's virtio-net driver are to a virtual machine, this process is to the
// namespace: it makes a tap, and passes frames between it and the rings of a virtio-user device,
// each with what its virtio_net_hdr says. So the namespace's TCP leaves checksums and segments of
// up to 64 KiB to the switch, and takes them, as a guest's kernel does, without a virtual machine
// whose emulation would be all that is measured.
//
// It listens, the switch connects (dpdkvhostuserclient), as QEMU does with `server=on`: Open
// vSwitch (3.1) takes checksums and segments of no other vhost-user port.
//
// One thread. As a guest's driver it sleeps when nothing moves, until the kernel has something for
// the tap or the switch kicks it. What the rings do not take stays here, and the tap is read no
// further, as a driver stops its queue.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "base/log.h"
#include "eal/eal.h"
#include "eal/ethdev.h"
#include "eal/mempool.h"
#include "port/kernel/tap_queue.h"
#include "port/vhost/guest_offload.h"

namespace headrace::channel {
namespace {

constexpr unsigned kBurst = 32;
constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kPause = std::chrono::milliseconds(10);
constexpr uint16_t kDescriptors = 1024;
/// More than one, since a tap that was read until it was empty is only named again some
/// microseconds later.
constexpr unsigned kRoundsBeforeSleep = 64;
constexpr int kLongestSleepMs = 10;

struct Options {
  std::string socket;
  std::string tap;
  uint32_t cpu{0};
  uint32_t memory_mb{96};
};

std::atomic<bool> ended{false};

void end(int /*signal*/) {
  ended.store(true, std::memory_order_relaxed);
}

/// A tap of this namespace whose kernel leaves TCP's checksums and segments.
Result<port::Descriptor> make_tap(const std::string& name) {
  port::Descriptor file(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!file) return fail("/dev/net/tun: {}", std::strerror(errno));
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return fail("{}: the name is too long", name);
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  if (::ioctl(file.get(), TUNSETIFF, &request) != 0) {
    return fail("{}: no tap device: {}", name, std::strerror(errno));
  }
  if (::ioctl(file.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) {
    return fail("{}: the tap device refuses offloads: {}", name, std::strerror(errno));
  }
  return file;
}

/// The guest's side of the rings, once the switch has answered.
Result<std::unique_ptr<eal::Ethdev>> connect(const std::string& socket, rte_mempool* pool) {
  const std::string devargs =
      fmt::format("net_virtio_user0,path={},server=1,queue_size={}", socket, kDescriptors);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto wait = [deadline] {
    std::this_thread::sleep_for(kPause);
    return std::chrono::steady_clock::now() < deadline && !ended.load();
  };
  auto device = eal::Ethdev::probe(devargs);
  while (!device && device.error().code == "no_peer" && wait()) {
    device = eal::Ethdev::probe(devargs);
  }
  if (!device) return device;
  Result<> done = (*device)->configure({.rx_descriptors = kDescriptors,
                                        .tx_descriptors = kDescriptors,
                                        .offloads = true,
                                        .rx_interrupts = true,
                                        .link_interrupt = true});
  if (done) done = (*device)->set_up_queues(pool);
  if (!done) return tl::unexpected(done.error());
  while (!(done = (*device)->start()) && wait()) {
  }
  if (done) done = (*device)->set_promiscuous();
  if (!done) return tl::unexpected(done.error());
  while (!(*device)->link().up) {
    if (!wait()) return fail("no switch answered at {}", socket);
  }
  return device;
}

/// Frames between the rings and the tap, until the process is to end.
class Guest {
 public:
  Guest(uint16_t device, port::TapQueue& tap) : device_(device), tap_(tap) {}
  ~Guest() { rte_pktmbuf_free_bulk(waiting_.data(), n_waiting_); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  void run() {
    // The kernel may have sent what nobody was told of.
    unsigned idle_rounds = 0;
    while (!ended.load(std::memory_order_relaxed)) {
      const bool received = from_rings();
      const bool sent = to_rings();
      if (received || sent) {
        idle_rounds = 0;
      } else if (++idle_rounds > kRoundsBeforeSleep) {
        wait();
      }
    }
  }

 private:
  bool from_rings() {
    std::array<rte_mbuf*, kBurst> packets;
    const uint16_t count = rte_eth_rx_burst(device_, 0, packets.data(), kBurst);
    uint16_t kept = 0;
    for (uint16_t i = 0; i < count; ++i) {
      if (port::vhost::take_guest_notes(packets[i])) {
        packets[kept++] = packets[i];
      } else {
        rte_pktmbuf_free(packets[i]);
      }
    }
    const uint16_t sent = kept == 0 ? uint16_t{0} : tap_.send({packets.data(), kept}, counts_);
    rte_pktmbuf_free_bulk(packets.data() + sent, kept - sent);
    return count > 0;
  }

  /// Until the switch kicks, the tap has something, or kLongestSleepMs are over.
  void wait() {
    const int kicked = rte_eth_dev_rx_intr_ctl_q_get_fd(device_, 0);
    rte_eth_dev_rx_intr_enable(device_, 0);
    // What came before the switch saw that it should kick.
    if (!from_rings()) {
      std::array<pollfd, 2> events{{{kicked, POLLIN, 0}, {tap_.fd(), POLLIN, 0}}};
      // While the rings are full the tap may wait.
      const nfds_t count = n_waiting_ == 0 ? 2 : 1;
      ::poll(events.data(), count, n_waiting_ == 0 ? kLongestSleepMs : 1);
      uint64_t kicks = 0;
      if ((events[0].revents & POLLIN) != 0 && ::read(kicked, &kicks, sizeof kicks) < 0) {
        log::debug("the kick is gone: {}", std::strerror(errno));
      }
    }
    rte_eth_dev_rx_intr_disable(device_, 0);
  }

  bool to_rings() {
    if (n_waiting_ == 0) n_waiting_ = tap_.receive(waiting_);
    if (n_waiting_ == 0) return false;
    const uint16_t sent = rte_eth_tx_burst(device_, 0, waiting_.data(), n_waiting_);
    n_waiting_ = static_cast<uint16_t>(n_waiting_ - sent);
    std::copy_n(waiting_.begin() + sent, n_waiting_, waiting_.begin());
    return sent > 0;
  }

  uint16_t device_;
  port::TapQueue& tap_;
  port::TxCounts counts_;
  std::array<rte_mbuf*, kBurst> waiting_{};
  uint16_t n_waiting_{0};
};

Result<> serve(const Options& options) {
  auto eal = eal::Eal::init(
      {.main_cpu = options.cpu, .memory_mb = options.memory_mb, .log_level = "warning"});
  if (!eal) return tl::unexpected(eal.error());
  const auto pool = eal::make_mempool({.name = "guest", .buffers = 16383});
  if (!pool) return tl::unexpected(pool.error());
  auto readiness = port::Readiness::shared();
  if (!readiness) return tl::unexpected(readiness.error());
  auto file = make_tap(options.tap);
  if (!file) return tl::unexpected(file.error());
  const auto tap = port::TapQueue::make(std::move(*file), pool->get(), **readiness);
  if (!tap) return tl::unexpected(tap.error());
  const auto device = connect(options.socket, pool->get());
  if (!device) return tl::unexpected(device.error());
  std::puts("ready");
  std::fflush(stdout);
  Guest((*device)->id(), **tap).run();
  return {};
}

}  // namespace
}  // namespace headrace::channel

int main(int argc, char** argv) {
  CLI::App app{
      "This network namespace as the guest of a vhost-user port: a tap in front of a virtio-user "
      "device. Prints \"ready\" when the switch has answered; SIGTERM ends it."};
  headrace::channel::Options o;
  app.add_option("--socket", o.socket, "where to listen for the switch")->required();
  app.add_option("--tap", o.tap, "the interface to make here")->required();
  app.add_option("--cpu", o.cpu, "the CPU of its thread");
  app.add_option("--memory", o.memory_mb, "MiB of memory");
  CLI11_PARSE(app, argc, argv);
  if (const auto logging = headrace::log::init("headrace-guest", "warning"); !logging) return 1;
  std::signal(SIGTERM, headrace::channel::end);
  std::signal(SIGINT, headrace::channel::end);
  if (const auto done = headrace::channel::serve(o); !done) {
    std::fprintf(stderr, "headrace-guest: %s\n", done.error().message.c_str());
    return 1;
  }
  return 0;
}
