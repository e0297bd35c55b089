// SPDX-License-Identifier: Apache-2.0
#include "port/shm_group.h"

#include <poll.h>
#include <rte_mbuf.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

#include "shm/attach.h"

namespace headrace::port {
namespace {

constexpr uint32_t kPoolCache = 256;

/// All groups in use, by the path of their socket. Control thread only.
std::map<std::string, std::weak_ptr<ShmGroup>>& groups() {
  static std::map<std::string, std::weak_ptr<ShmGroup>> known;
  return known;
}

}  // namespace

Result<std::shared_ptr<ShmGroup>> ShmGroup::of(const ShmGroupConfig& config) {
  const std::string path = config.rundir + "/" + config.name + ".shm";
  if (auto found = groups()[path].lock()) return found;
  std::shared_ptr<ShmGroup> group(new ShmGroup(config));
  group->socket_path_ = path;
  auto region = shm::Region::create(config.region);
  if (!region) return tl::unexpected(region.error());
  group->region_ = std::move(*region);
  auto packets = ShmPackets::make(config.name,
                                  {.first_octets = group->region_.octets(0),
                                   .stride = group->region_.buffer_stride(),
                                   .count = config.region.n_buffers},
                                  std::min(kPoolCache, config.region.n_buffers / 4));
  if (!packets) return tl::unexpected(packets.error());
  group->packets_ = std::move(*packets);
  group->ends_ = std::make_unique<shm::SwitchEnd>(group->region_, group->buffers_);
  group->links_ = std::make_unique<shm::DirectLinks>(*group->ends_);
  if (auto listening = group->listen(); !listening) return tl::unexpected(listening.error());
  groups()[path] = group;
  return group;
}

ShmGroup::~ShmGroup() {
  if (server_.joinable()) {
    const uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
    server_.join();
  }
  for (const Connection& connection : connections_) close(connection.fd);
  if (listener_ >= 0) {
    close(listener_);
    unlink(socket_path_.c_str());
  }
  if (wake_ >= 0) close(wake_);
}

uint32_t ShmGroup::MbufPool::take(std::span<uint32_t> buffers) {
  uint32_t count = 0;
  for (uint32_t& buffer : buffers) {
    rte_mbuf* packet = rte_mbuf_raw_alloc(group_.packets_.mbufs().pool());
    if (packet == nullptr) break;
    buffer = shm::MbufSet::buffer_of(packet);
    ++count;
  }
  return count;
}

void ShmGroup::MbufPool::give(std::span<const uint32_t> buffers) {
  for (const uint32_t buffer : buffers) {
    rte_mbuf* packet = group_.packets_.mbufs().mbuf(buffer);
    rte_pktmbuf_reset(packet);
    rte_mbuf_raw_free(packet);
  }
}

Result<uint32_t> ShmGroup::add_port(const std::string& name) {
  if (name.size() >= shm::kNameSize) {
    return fail("{}: a shm port's name has at most {} characters", name, shm::kNameSize - 1);
  }
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(names_, name) != names_.end()) {
    return fail("{}: group {} has a port of this name", name, config_.name);
  }
  for (uint32_t port = 0; port < region_.config().n_ports; ++port) {
    const uint64_t unfinished = lost_.load(std::memory_order_acquire) | draining_.load();
    const bool dirty = (unfinished >> port & 1) != 0;
    if (!names_[port].empty() || dirty) continue;
    names_[port] = name;
    region_.name_port(port, name);
    return port;
  }
  return fail("{}: all {} places of group {} are taken; set options:ports higher on its first port",
              name, region_.config().n_ports, config_.name);
}

void ShmGroup::remove_port(uint32_t port) {
  const std::lock_guard lock(mutex_);
  names_[port].clear();
  watchers_[port] = nullptr;
  region_.name_port(port, "");
  // Its VNF is told; serve() sees the end of the connection as if the VNF had gone.
  for (const Connection& connection : connections_) {
    if (connection.port == static_cast<int>(port)) shutdown(connection.fd, SHUT_RDWR);
  }
  lost_.fetch_or(uint64_t{1} << port, std::memory_order_release);
  // A worker that polls another port of the group takes back what this one held; else no worker
  // uses the group.
  if (std::ranges::all_of(names_, &std::string::empty)) {
    links_->drop_all();
    reclaim_ports();
  }
}

void ShmGroup::reclaim_ports() noexcept {
  const uint64_t lost = lost_.load(std::memory_order_acquire);
  const uint64_t attached = attached_.load(std::memory_order_acquire);
  const uint64_t draining = draining_.load(std::memory_order_relaxed) & ~attached;
  const uint64_t taken_over = draining_.load(std::memory_order_relaxed) & attached;
  for (uint64_t ports = taken_over; ports != 0; ports &= ports - 1) {
    links_->attach(static_cast<uint32_t>(std::countr_zero(ports)));
  }
  uint64_t linked = 0;  // a VNF may still send to them directly
  for (uint64_t ports = lost | draining; ports != 0; ports &= ports - 1) {
    const auto port = static_cast<uint32_t>(std::countr_zero(ports));
    if (!links_->detach(port)) linked |= uint64_t{1} << port;
  }
  // Of the others that drain there is nothing to do yet.
  if (const uint64_t ports = lost | (draining & ~linked); ports != 0) {
    if (attached == 0 && linked == 0) {
      ends_->reclaim_all();
    } else {
      ends_->reclaim_ports(ports, linked & lost);
    }
  }
  draining_.store(linked, std::memory_order_relaxed);
  lost_.fetch_and(~lost, std::memory_order_release);
}

Result<> ShmGroup::listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) {
    return fail("{}: longer than a Unix socket's path may be; choose a shorter run directory",
                socket_path_);
  }
  socket_path_.copy(address.sun_path, socket_path_.size());
  unlink(socket_path_.c_str());
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (listener_ < 0 || wake_ < 0 ||
      bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, shm::kMaxPorts) != 0) {
    return fail("{}: {}", socket_path_, std::strerror(errno));
  }
  server_ = std::thread([this] { serve(); });
  return {};
}

void ShmGroup::serve() {
  std::vector<pollfd> watched;
  for (;;) {
    // Only this thread adds and removes connections; the control thread only looks.
    watched = {{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Connection& connection : connections_) watched.push_back({connection.fd, POLLIN, 0});
    if (poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) return;
    // From the last, so that removing one does not move those still to be looked at.
    for (size_t i = watched.size(); i > 2; --i) {
      if (watched[i - 1].revents == 0) continue;
      Connection& connection = connections_[i - 3];
      if (connection.port < 0) {
        answer(static_cast<int>(i - 3));
      } else {
        drop_connection(i - 3);
      }
    }
    if (watched[1].revents != 0) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const std::lock_guard lock(mutex_);
      if (fd >= 0) connections_.push_back({fd, -1});
    }
  }
}

void ShmGroup::watch(uint32_t port, std::function<void()> changed) {
  const std::lock_guard lock(mutex_);
  watchers_[port] = std::move(changed);
}

void ShmGroup::set_attached(uint32_t port, bool attached) {
  const uint64_t bit = uint64_t{1} << port;
  if (attached) {
    attached_.fetch_or(bit);
  } else {
    attached_.fetch_and(~bit);
  }
  if (watchers_[port]) watchers_[port]();
}

void ShmGroup::drop_connection(size_t index) {
  const std::lock_guard lock(mutex_);
  const Connection gone = connections_[index];
  close(gone.fd);
  connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(index));
  if (gone.port < 0) return;
  lost_.fetch_or(uint64_t{1} << gone.port, std::memory_order_release);
  set_attached(static_cast<uint32_t>(gone.port), false);
}

int ShmGroup::admit(const std::string& name, uint32_t& port, bool known_version) {
  if (!known_version) return -EPROTO;
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(names_, name);
  if (name.empty() || found == names_.end()) return -ENOENT;
  port = static_cast<uint32_t>(found - names_.begin());
  const bool used = std::ranges::any_of(connections_, [port](const Connection& connection) {
    return connection.port == static_cast<int>(port);
  });
  // Until the worker has taken back what the last user held, the rings are not the next one's.
  if (used || (lost_.load(std::memory_order_acquire) >> port & 1) != 0) return -EBUSY;
  return 0;
}

void ShmGroup::answer(int index) {
  Connection& connection = connections_[static_cast<size_t>(index)];
  shm::AttachRequest request;
  shm::AttachReply reply;
  const auto got = recv(connection.fd, &request, sizeof request, MSG_DONTWAIT);
  if (got != sizeof request || request.magic != shm::kMagic) {
    drop_connection(static_cast<size_t>(index));
    return;
  }
  request.name[shm::kNameSize - 1] = 0;
  reply.status = admit(request.name, reply.port, request.version_major == shm::kLayoutVersion);
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (reply.status == 0) {
    {
      const std::lock_guard lock(mutex_);
      connection.port = static_cast<int>(reply.port);
      set_attached(reply.port, true);
    }
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* passed = CMSG_FIRSTHDR(&message);
    passed->cmsg_level = SOL_SOCKET;
    passed->cmsg_type = SCM_RIGHTS;
    passed->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = region_.mapping().fd();
    std::memcpy(CMSG_DATA(passed), &fd, sizeof fd);
  }
  if (sendmsg(connection.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof reply ||
      reply.status != 0) {
    drop_connection(static_cast<size_t>(index));
  }
}

}  // namespace headrace::port
