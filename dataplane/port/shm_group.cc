// SPDX-License-Identifier: Apache-2.0
#include "port/shm_group.h"

#include <poll.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
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
  if (auto made = group->make_pool(); !made) return tl::unexpected(made.error());
  group->ends_ = std::make_unique<shm::SwitchEnd>(group->region_, group->buffers_);
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
  rte_mempool_free(pool_);
}

Result<> ShmGroup::make_pool() {
  const shm::RegionConfig& region = region_.config();
  const uint32_t room = region_.buffer_stride() - sizeof(shm::BufferHeader);
  // The pool takes the octets of buffer 0 as its start and strides on; what it calls an element's
  // end is the next buffer's header, which an mbuf's length keeps it from.
  rte_pktmbuf_extmem memory{};
  memory.buf_ptr = region_.octets(0);
  memory.buf_iova = reinterpret_cast<rte_iova_t>(memory.buf_ptr);
  memory.buf_len = size_t{region.n_buffers} * region_.buffer_stride();
  memory.elt_size = static_cast<uint16_t>(region_.buffer_stride());
  const std::string name = "shm_" + config_.name.substr(0, 20);
  const uint32_t cache = std::min(kPoolCache, region.n_buffers / 4);
  pool_ = rte_pktmbuf_pool_create_extbuf(name.c_str(), region.n_buffers, cache, sizeof(uint64_t),
                                         static_cast<uint16_t>(room), SOCKET_ID_ANY, &memory, 1);
  if (pool_ == nullptr) {
    return fail("group {}: {} mbufs could not be made: {}; give the switch more memory (--mem)",
                config_.name, region.n_buffers, rte_strerror(rte_errno));
  }
  mbufs_.resize(region.n_buffers);
  rte_mempool_obj_iter(
      pool_,
      [](rte_mempool*, void* user, void* object, unsigned) {
        auto& group = *static_cast<ShmGroup*>(user);
        auto* packet = static_cast<rte_mbuf*>(object);
        const auto at = static_cast<uint8_t*>(packet->buf_addr) - group.region_.octets(0);
        const auto number = static_cast<uint32_t>(at / group.region_.buffer_stride());
        *rte_mbuf_to_priv_number(packet) = number;
        group.mbufs_[number] = packet;
      },
      this);
  return {};
}

uint32_t ShmGroup::MbufPool::take(std::span<uint32_t> buffers) {
  uint32_t count = 0;
  for (uint32_t& buffer : buffers) {
    rte_mbuf* packet = rte_mbuf_raw_alloc(group_.pool_);
    if (packet == nullptr) break;
    buffer = buffer_of(packet);
    ++count;
  }
  return count;
}

void ShmGroup::MbufPool::give(std::span<const uint32_t> buffers) {
  for (const uint32_t buffer : buffers) {
    rte_mbuf* packet = group_.mbufs_[buffer];
    rte_pktmbuf_reset(packet);
    rte_mbuf_raw_free(packet);
  }
}

Result<uint32_t> ShmGroup::add_port(const std::string& name) {
  if (name.size() >= shm::kNameSize) {
    return fail("{}: a shm port's name has at most {} characters", name, shm::kNameSize - 1);
  }
  const std::lock_guard lock(names_mutex_);
  if (std::ranges::find(names_, name) != names_.end()) {
    return fail("{}: group {} has a port of this name", name, config_.name);
  }
  for (uint32_t port = 0; port < region_.config().n_ports; ++port) {
    if (!names_[port].empty()) continue;
    names_[port] = name;
    name.copy(region_.port(port).name, name.size());
    return port;
  }
  return fail("{}: all {} places of group {} are taken; set options:ports higher on its first port",
              name, region_.config().n_ports, config_.name);
}

void ShmGroup::remove_port(uint32_t port) {
  const std::lock_guard lock(names_mutex_);
  names_[port].clear();
  std::memset(region_.port(port).name, 0, shm::kNameSize);
  ends_->reclaim(port);
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
      if (fd >= 0) connections_.push_back({fd, -1});
    }
  }
}

void ShmGroup::drop_connection(size_t index) {
  const Connection gone = connections_[index];
  close(gone.fd);
  connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(index));
  if (gone.port >= 0) lost_[static_cast<size_t>(gone.port)].store(true, std::memory_order_release);
}

int ShmGroup::admit(const std::string& name, uint32_t& port, bool known_version) {
  if (!known_version) return -EPROTO;
  const std::lock_guard lock(names_mutex_);
  const auto found = std::ranges::find(names_, name);
  if (name.empty() || found == names_.end()) return -ENOENT;
  port = static_cast<uint32_t>(found - names_.begin());
  const bool used = std::ranges::any_of(connections_, [port](const Connection& connection) {
    return connection.port == static_cast<int>(port);
  });
  // Until the worker has taken back what the last user held, the rings are not the next one's.
  if (used || lost_[port].load(std::memory_order_acquire)) return -EBUSY;
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
  reply.status = admit(request.name, reply.port, request.version_major == 1);
  iovec part{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (reply.status == 0) {
    connection.port = static_cast<int>(reply.port);
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
