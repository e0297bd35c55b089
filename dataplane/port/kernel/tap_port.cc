// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/tap_port.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "port/kernel/kernel_port.h"
#include "port/kernel/moved_device.h"
#include "port/kernel/tap_queue.h"

namespace headrace::port {
namespace {

constexpr unsigned kOffloads = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
// linux/if_tun.h, since Linux 6.2.
constexpr unsigned kUdpOffloads = 0x20 | 0x40;

/// A file that is attached to the tap device of that name, which is made if there is none.
Result<Descriptor> attach(const std::string& name, bool several) {
  Descriptor file(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!file) return fail("{}: /dev/net/tun: {}", name, std::strerror(errno));
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_flags =
      static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (several ? IFF_MULTI_QUEUE : 0));
  if (::ioctl(file.get(), TUNSETIFF, &request) != 0) {
    return fail("{}: no tap device: {}", name, std::strerror(errno));
  }
  if (::ioctl(file.get(), TUNSETOFFLOAD, kOffloads | kUdpOffloads) != 0 &&
      ::ioctl(file.get(), TUNSETOFFLOAD, kOffloads) != 0) {
    return fail("{}: the tap device refuses offloads: {}", name, std::strerror(errno));
  }
  return file;
}

class TapPort final : public KernelPort {
 public:
  static Result<std::unique_ptr<Port>> open(const PortConfig& config, uint32_t queues);
  ~TapPort() override;
  TapPort(const TapPort&) = delete;
  TapPort& operator=(const TapPort&) = delete;

  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return queues_[queue]->receive(packets);
  }
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override {
    return queues_[queue % queues_.size()]->send(packets, sender(queue));
  }
  [[nodiscard]] uint16_t n_rx_queues() const override {
    return static_cast<uint16_t>(queues_.size());
  }
  LinkState link() override;
  void keep_device() override { keep_ = true; }
  [[nodiscard]] std::map<std::string, int64_t> statistics() const override;
  [[nodiscard]] StringMap status() const override;

 private:
  TapPort(const PortConfig& config, std::shared_ptr<Readiness> readiness)
      : KernelPort(config, KernelInterface(config.name)),
        readiness_(std::move(readiness)),
        reclaimer_(config.reclaimer),
        record_(config.rundir, config.name) {}
  /// Makes or finds the device.
  Result<> attach_queues(const PortConfig& config, uint32_t queues);
  /// Follows the device to the namespace and name that it has now.
  void follow();

  std::shared_ptr<Readiness> readiness_;
  pipeline::Reclaimer* reclaimer_;
  MovedDevice record_;
  NamespaceId home_{};
  NamespaceId where_{};
  bool keep_{false};
  std::vector<std::unique_ptr<TapQueue>> queues_;
};

Result<std::unique_ptr<Port>> TapPort::open(const PortConfig& config, uint32_t queues) {
  Result<std::shared_ptr<Readiness>> readiness = Readiness::shared();
  if (!readiness) return fail("{}: {}", config.name, readiness.error().message);
  std::unique_ptr<TapPort> port(new TapPort(config, std::move(*readiness)));
  if (Result<> done = port->attach_queues(config, queues); !done) {
    return tl::unexpected(done.error());
  }
  port->follow();
  if (Result<> done = port->set_addresses(config); !done) return tl::unexpected(done.error());
  // As in OVS: an internal port is down until `ip link set NAME up`, so that a kernel that is not
  // asked to speak there (IPv6 does at once) does not.
  if (config.type == "tap" && port->where_ == port->home_) {
    if (Result<> done = port->interface_.set_up(true); !done) return tl::unexpected(done.error());
  }
  return port;
}

Result<> TapPort::attach_queues(const PortConfig& config, uint32_t queues) {
  home_ = where_ = namespace_id(own_namespace().get());
  const std::optional<MovedDevice::Place> moved = record_.read();
  const Descriptor there = moved ? find_namespace(moved->where) : Descriptor();
  std::optional<InNamespace> visit;
  if (there) visit.emplace(there.get());
  const bool elsewhere = visit && visit->entered() && ::if_nametoindex(moved->name.c_str()) != 0;
  if (!elsewhere) {
    visit.reset();
    record_.forget();
    if (::if_nametoindex(config.name.c_str()) != 0) {
      return fail("{}: there is a kernel interface of that name already; remove it first",
                  config.name);
    }
  }
  for (uint32_t queue = 0; queue < queues; ++queue) {
    Result<Descriptor> file = attach(elsewhere ? moved->name : config.name, queues > 1);
    if (!file) return tl::unexpected(file.error());
    auto made = TapQueue::make(std::move(*file), config.pool, *readiness_);
    if (!made) return fail("{}: {}", config.name, made.error().message);
    queues_.push_back(std::move(*made));
  }
  return {};
}

void TapPort::follow() {
  const int fd = queues_.front()->fd();
  ifreq request{};
  if (::ioctl(fd, TUNGETIFF, &request) != 0) return;
  const Descriptor there(::ioctl(fd, TUNGETDEVNETNS));
  if (!there) return;
  const NamespaceId now = namespace_id(there.get());
  const std::string name(request.ifr_name, ::strnlen(request.ifr_name, sizeof request.ifr_name));
  if (now == where_ && name == interface_.name()) return;
  const bool at_home = now == home_;
  log::info("{}: the interface is {} in {} network namespace now", name_, name,
            at_home ? "the switch's own" : "another");
  where_ = now;
  interface_.move(name, there.get());
  if (at_home) {
    record_.forget();
  } else if (Result<> written = record_.write({now, name}); !written) {
    log::warn("{}: {}; the interface will not be found there after a restart", name_,
              written.error().message);
  }
  ::ioctl(fd, TUNSETPERSIST, at_home ? 0 : 1);
}

LinkState TapPort::link() {
  follow();
  return interface_.link();
}

TapPort::~TapPort() {
  const bool kept = keep_ && !(where_ == home_);
  if (!queues_.empty() && !kept) {
    ::ioctl(queues_.front()->fd(), TUNSETPERSIST, 0);
    record_.forget();
  }
  for (const auto& queue : queues_) {
    // A worker may just have been told of an event.
    if (reclaimer_ != nullptr) reclaimer_->defer([state = queue->ready()] {});
  }
}

std::map<std::string, int64_t> TapPort::statistics() const {
  std::map<std::string, int64_t> statistics;
  for (const auto& queue : queues_) add_received(queue->counts(), 0, statistics);
  add_sent(statistics);
  return statistics;
}

StringMap TapPort::status() const {
  StringMap status{{"driver_name", "headrace-tap"},
                   {"n_rxq", std::to_string(queues_.size())},
                   {"n_txq", std::to_string(n_tx_queues())},
                   {"numa_id", "0"},
                   {"tx_offloads", "checksum, tso4, tso6, uso"}};
  if (!(where_ == home_)) {
    status["netns_inode"] = std::to_string(where_.inode);
    status["interface"] = interface_.name();
  }
  return status;
}

}  // namespace

Result<std::unique_ptr<Port>> open_tap_port(const PortConfig& config, Options& options) {
  if (config.name.size() >= IFNAMSIZ || config.name.find_first_of("/, :") != std::string::npos) {
    return fail("{}: the name of a kernel interface has at most {} characters, no '/', ',' or ':'",
                config.name, IFNAMSIZ - 1);
  }
  const Result<uint32_t> queues = options.number("n_rxq", 1, 1, 16);
  if (!queues) return tl::unexpected(queues.error());
  if (Result<> rest = options.finish(); !rest) return tl::unexpected(rest.error());
  return TapPort::open(config, *queues);
}

}  // namespace headrace::port
