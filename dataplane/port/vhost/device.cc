// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/device.h"

#include <rte_vhost.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/log.h"
#include "port/software_offload.h"
#include "port/vhost/guarded_mapping.h"
#include "port/vhost/guest_memory.h"
#include "port/vhost/guest_offload.h"
#include "port/vhost/library_messages.h"
#include "port/vhost/memory_change.h"
#include "port/vhost/message_checks.h"

namespace headrace::port::vhost {

namespace {

/// The devices of this process by the path of their socket, which is what callbacks can ask for.
struct Registry {
  std::mutex mutex;
  std::map<std::string, Device*> devices;
};

Registry& registry() {
  // Not destroyed: librte_vhost's thread may call back until the process has ended.
  static auto& the_registry = *new Registry;
  return the_registry;
}

/// The device that a connection is of. It cannot go while one of its callbacks runs:
/// rte_vhost_driver_unregister() waits for them.
Device* device_of(int vid) {
  std::array<char, PATH_MAX> path{};
  if (rte_vhost_get_ifname(vid, path.data(), path.size()) != 0) return nullptr;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.devices.find(path.data());
  return found == all.devices.end() ? nullptr : found->second;
}

/// Notifications by vid, counted by workers without a look-up.
std::array<std::atomic<uint64_t>, RTE_MAX_VHOST_DEVICE> notified{};

/// Removes a socket that no process listens at, as one that was killed leaves it behind.
void remove_dead_socket(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool is_dead =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED;
  ::close(fd);
  if (is_dead) ::unlink(path.c_str());
}

/// What OVS says of a connected guest, by OVS's names.
std::map<std::string, std::string> facts_of(int vid) {
  std::map<std::string, std::string> facts;
  uint64_t features = 0;
  if (rte_vhost_get_negotiated_features(vid, &features) == 0) {
    facts["features"] = fmt::format("{:#018x}", features);
  }
  if (uint16_t mtu = 0; rte_vhost_get_mtu(vid, &mtu) == 0) facts["mtu"] = std::to_string(mtu);
  if (const int node = rte_vhost_get_numa_node(vid); node >= 0) {
    facts["numa"] = std::to_string(node);
  }
  const uint16_t vrings = rte_vhost_get_vring_num(vid);
  facts["num_of_vrings"] = std::to_string(vrings);
  for (uint16_t i = 0; i < vrings; ++i) {
    rte_vhost_vring vring{};
    if (rte_vhost_get_vhost_vring(vid, i, &vring) != 0) continue;
    facts[fmt::format("vring_{}_size", i)] = std::to_string(vring.size);
  }
  return facts;
}

}  // namespace

/// librte_vhost's callbacks. A negative number from new_connection() closes the connection.
struct Callbacks {
  static int new_connection(int vid) {
    Device* device = device_of(vid);
    if (device == nullptr) return -1;
    forget_lost_memory(vid);
    forget_memory_change(vid);
    static constexpr rte_vhost_user_extern_ops kAroundMessages = {.pre_msg_handle = before_message,
                                                                  .post_msg_handle = after_message};
    if (rte_vhost_extern_callback_register(vid, &kAroundMessages, nullptr) != 0) return -1;
    device->connected(vid);
    return 0;
  }
  static void destroy_connection(int vid) {
    if (Device* device = device_of(vid)) device->disconnected(vid);
    forget_memory_change(vid);
  }
  static int new_device(int vid) {
    Device* device = device_of(vid);
    if (device == nullptr) return -1;
    device->ready(vid);
    return 0;
  }
  static void destroy_device(int vid) {
    if (Device* device = device_of(vid)) device->gone(vid);
  }
  static int vring_state_changed(int vid, uint16_t vring, int enabled) {
    if (Device* device = device_of(vid)) device->vring_changed(vid, vring, enabled != 0);
    return 0;
  }
  /// Around each message of the guest, upon which librte_vhost may map its memory elsewhere.
  static rte_vhost_msg_result before_message(int vid, void* message) {
    const bool has_no_memory = has_failed_memory_change(vid);
    if (has_no_memory || is_refused(vid, message)) {
      close_files_of_message();
      if (has_no_memory) end_connection_of_message();
      return RTE_VHOST_MSG_RESULT_ERR;
    }
    if (Device* device = device_of(vid)) device->stop_looking(vid);
    if (changes_memory(message)) begin_memory_change(vid);
    return RTE_VHOST_MSG_RESULT_NOT_HANDLED;
  }
  static rte_vhost_msg_result after_message(int vid, void* /*message*/) {
    end_memory_change(vid);
    confine_positions(vid);
    if (Device* device = device_of(vid)) device->look_again(vid);
    return RTE_VHOST_MSG_RESULT_NOT_HANDLED;
  }
  static void guest_notified(int vid) {
    notified[static_cast<size_t>(vid)].fetch_add(1, std::memory_order_relaxed);
  }
};

namespace {

constexpr rte_vhost_device_ops kOps = {
    .new_device = Callbacks::new_device,
    .destroy_device = Callbacks::destroy_device,
    .vring_state_changed = Callbacks::vring_state_changed,
    .features_changed = nullptr,
    .new_connection = Callbacks::new_connection,
    .destroy_connection = Callbacks::destroy_connection,
    .guest_notified = Callbacks::guest_notified,
    .reserved = {},
};

}  // namespace

Result<std::unique_ptr<Device>> Device::open(DeviceConfig config, DataPath& data) {
  std::unique_ptr<Device> device(new Device(std::move(config), data));
  if (Result<> started = device->start(); !started) return tl::unexpected(started.error());
  return device;
}

Result<> Device::start() {
  guard_guest_memory();
  const std::string& socket = config_.socket;
  if (!are_mappings_guarded()) {
    return fail("{}: {}: mmap() is another library's, so a guest could write behind its memory",
                config_.name, socket);
  }
  const char* path = socket.c_str();
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    const auto [found, is_new] = all.devices.try_emplace(socket, this);
    if (!is_new) {
      return fail("{}: the socket {} is that of port {}; each port needs its own", config_.name,
                  socket, found->second->config_.name);
    }
  }
  is_registered_ = true;
  if (!config_.client) remove_dead_socket(socket);
  const uint64_t flags = RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS |
                         (config_.client ? RTE_VHOST_USER_CLIENT : 0) |
                         (config_.iommu ? RTE_VHOST_USER_IOMMU_SUPPORT : 0) |
                         (config_.postcopy ? RTE_VHOST_USER_POSTCOPY_SUPPORT : 0);
  if (rte_vhost_driver_register(path, flags) != 0) {
    return fail(
        "{}: {}: cannot be made; if no other process listens there, the process has no "
        "room for more vhost-user sockets ({} are possible)",
        config_.name, socket, RTE_MAX_VHOST_DEVICE);
  }
  has_driver_ = true;
  if (rte_vhost_driver_disable_features(path, features_not_offered(config_.offloads)) != 0 ||
      rte_vhost_driver_callback_register(path, &kOps) != 0) {
    return fail("{}: {}: its features cannot be set", config_.name, socket);
  }
  if (rte_vhost_driver_start(path) != 0) {
    return fail("{}: cannot {} at {}; see the log for what the library said", config_.name,
                config_.client ? "connect" : "listen", socket);
  }
  return {};
}

Device::~Device() {
  if (has_driver_) rte_vhost_driver_unregister(config_.socket.c_str());
  if (!is_registered_) return;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.devices.erase(config_.socket);
}

void Device::connected(int vid) {
  const std::lock_guard lock(mutex_);
  connected_[vid] = {};
}

void Device::disconnected(int vid) {
  const std::lock_guard lock(mutex_);
  connected_.erase(vid);
}

void Device::vring_changed(int vid, uint16_t vring, bool enabled) {
  // With the device's access locks held: nothing here may wait for a worker.
  const std::lock_guard lock(mutex_);
  QueueStates& states = connected_[vid];
  states.set(vring, enabled);
  if (vid == active_) data_.publish(vid, states, features_);
}

void Device::ready(int vid) {
  // We poll: the guest need not kick.
  const uint16_t vrings = rte_vhost_get_vring_num(vid);
  for (uint16_t vring = 0; vring < vrings; ++vring) {
    rte_vhost_enable_guest_notification(vid, vring, 0);
  }
  uint64_t features = 0;
  rte_vhost_get_negotiated_features(vid, &features);
  if (guest_leaves(features)) SoftwareOffload::note_offloads();
  set_takes(guest_takes(features));
  {
    const std::lock_guard lock(mutex_);
    if (active_ >= 0) {
      log::warn("{}: another guest is ready at {}: the earlier one is not served any more",
                config_.name, config_.socket);
      notifications_before_ += notified[static_cast<size_t>(active_)];
    }
    active_ = vid;
    notified[static_cast<size_t>(vid)] = 0;
    facts_ = facts_of(vid);
    features_ = features;
    if (may_look()) data_.packed_rings().renew(vid, connected_[vid]);
    data_.publish(vid, connected_[vid], features);
    log::info("{}: a guest is ready at {}, {} queue pairs enabled of {}", config_.name,
              config_.socket, connected_[vid].pairs_to_guest(), vrings / 2);
  }
  if (config_.on_link_event) config_.on_link_event();
}

void Device::stop_looking(int vid) {
  const std::lock_guard lock(mutex_);
  if (vid == active_) data_.packed_rings().stop();
}

void Device::look_again(int vid) {
  const std::lock_guard lock(mutex_);
  if (vid == active_ && may_look()) data_.packed_rings().renew(vid, connected_[vid]);
}

void Device::set_takes(uint64_t takes) {
  if (takes == data_.takes()) return;
  {
    const std::lock_guard lock(mutex_);
    data_.withdraw();
    data_.set_takes(takes);
  }
  // A worker may have read what the last guest took, and not yet where to send to.
  config_.wait_for_workers();
}

void Device::gone(int vid) {
  bool was_active = false;
  {
    const std::lock_guard lock(mutex_);
    was_active = vid == active_;
    if (was_active) {
      data_.withdraw();
      data_.packed_rings().stop();
      notifications_before_ += notified[static_cast<size_t>(vid)];
      active_ = -1;
      facts_.clear();
      log::info("{}: the guest at {} has gone", config_.name, config_.socket);
    }
  }
  // Also for one that had been replaced: a worker may have been in it all the time.
  config_.wait_for_workers();
  if (was_active && config_.on_link_event) config_.on_link_event();
}

bool Device::look() {
  const std::lock_guard lock(mutex_);
  if (active_ >= 0 && has_lost_memory(active_)) {
    data_.withdraw();
    data_.packed_rings().stop();
    notifications_before_ += notified[static_cast<size_t>(active_)];
    active_ = -1;
    facts_.clear();
    log::error(
        "{}: the guest at {} has taken memory back that it shares: it is not served until "
        "it connects again",
        config_.name, config_.socket);
  }
  return active_ >= 0;
}

uint64_t Device::notifications() const {
  const std::lock_guard lock(mutex_);
  return notifications_before_ + (active_ < 0 ? 0 : notified[static_cast<size_t>(active_)].load());
}

std::map<std::string, std::string> Device::status() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> status = facts_;
  status["mode"] = config_.client ? "client" : "server";
  status["socket"] = config_.socket;
  status["status"] = active_ < 0 ? "disconnected" : "connected";
  return status;
}

}  // namespace headrace::port::vhost
