// SPDX-License-Identifier: Apache-2.0
#include "port/kernel/interface.h"

#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <utility>

namespace headrace::port {
namespace {

constexpr const char* kOwnNamespace = "/proc/thread-self/ns/net";

Descriptor control_socket() {
  return Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return request;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

NamespaceId namespace_id(int fd) {
  struct stat file {};
  if (fd < 0 || ::fstat(fd, &file) != 0) return {};
  return {file.st_dev, file.st_ino};
}

Descriptor own_namespace() {
  return Descriptor(::open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
}

InNamespace::InNamespace(int fd)
    : back_(own_namespace()), entered_(back_ && ::setns(fd, CLONE_NEWNET) == 0) {}

InNamespace::~InNamespace() {
  if (entered_ && ::setns(back_.get(), CLONE_NEWNET) != 0) std::terminate();
}

Descriptor find_namespace(NamespaceId id) {
  const auto opened = [id](const std::filesystem::path& path) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return file && namespace_id(file.get()) == id ? std::move(file) : Descriptor();
  };
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", error)) {
    if (Descriptor file = opened(entry.path())) return file;
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      continue;
    }
    if (Descriptor file = opened(entry.path() / "ns/net")) return file;
  }
  return {};
}

KernelInterface::KernelInterface(std::string name)
    : name_(std::move(name)), socket_(control_socket()) {}

void KernelInterface::move(std::string name, int fd) {
  name_ = std::move(name);
  if (fd < 0) {
    socket_ = control_socket();
    return;
  }
  const InNamespace there(fd);
  if (there.entered()) socket_ = control_socket();
}

uint32_t KernelInterface::index() const {
  ifreq request = request_for(name_);
  const bool found = ::ioctl(socket_.get(), SIOCGIFINDEX, &request) == 0;
  return found ? static_cast<uint32_t>(request.ifr_ifindex) : 0;
}

LinkState KernelInterface::link() const {
  ifreq request = request_for(name_);
  LinkState state;
  if (::ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0) return state;
  const auto flags = static_cast<unsigned>(static_cast<uint16_t>(request.ifr_flags));
  state.up = (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (::ioctl(socket_.get(), SIOCETHTOOL, &request) == 0) {
    const uint32_t speed = ethtool_cmd_speed(&settings);
    if (speed != static_cast<uint32_t>(SPEED_UNKNOWN))
      state.speed_bps = uint64_t{speed} * 1'000'000;
    state.full_duplex = settings.duplex != DUPLEX_HALF;
  }
  return state;
}

Result<> KernelInterface::set_up(bool up) const {
  ifreq request = request_for(name_);
  if (::ioctl(socket_.get(), SIOCGIFFLAGS, &request) == 0) {
    const int flags = up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP;
    request.ifr_flags = static_cast<short>(flags);
    if (::ioctl(socket_.get(), SIOCSIFFLAGS, &request) == 0) return {};
  }
  return fail("{}: cannot be set {}: {}", name_, up ? "up" : "down", std::strerror(errno));
}

uint32_t KernelInterface::mtu() const {
  ifreq request = request_for(name_);
  const bool found = ::ioctl(socket_.get(), SIOCGIFMTU, &request) == 0;
  return found ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

Result<> KernelInterface::set_mtu(uint32_t mtu) const {
  ifreq request = request_for(name_);
  request.ifr_mtu = static_cast<int>(mtu);
  if (::ioctl(socket_.get(), SIOCSIFMTU, &request) == 0) return {};
  return fail("{}: MTU {}: {}", name_, mtu, std::strerror(errno));
}

MacAddress KernelInterface::mac() const {
  ifreq request = request_for(name_);
  MacAddress mac{};
  if (::ioctl(socket_.get(), SIOCGIFHWADDR, &request) == 0) {
    std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  }
  return mac;
}

Result<> KernelInterface::set_mac(const MacAddress& mac) const {
  ifreq request = request_for(name_);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  if (::ioctl(socket_.get(), SIOCSIFHWADDR, &request) == 0) return {};
  return fail("{}: the MAC address cannot be set: {}", name_, std::strerror(errno));
}

}  // namespace headrace::port
