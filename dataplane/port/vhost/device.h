// SPDX-License-Identifier: Apache-2.0
// A vhost-user socket, and the virtio-net device of the guest that is connected to it.
//
// librte_vhost does the protocol: it listens or connects (a client tries again once per second, for
// ever), negotiates features, maps the guest's memory, and says by callbacks what becomes of a
// device. This file turns that into routes of a DataPath (data_path.h says what is safe when):
//
//   new_connection       a connection, with a number (vid); rings will be announced
//   vring_state_changed  a vring is ready and enabled, or not any more
//   new_device           the first pair is ready: workers may use the device
//   destroy_device       workers must leave it before the callback returns
//   destroy_connection   the number will be used again
//
// As server several guests may connect to one socket, for instance a virtual machine that was
// started anew before the old one's connection was found broken. The latest that becomes ready has
// the port; an earlier one stays connected but gets and gives nothing.
//
// Features. Checksums and TCP segmentation are offered both ways (guest_offload.h). Mergeable
// buffers, packed rings, in-order use, any number of queue pairs, dirty logging for live migration
// and MTU are librte_vhost's and offered by default.
//
// Offered only where the port is told to (options:iommu, options:postcopy; OVS has both off by
// default, too): IOMMU, since the look-up of an address that is not cached sends a message to the
// guest's side from the worker, which could make it wait; and postcopy, which makes a worker wait
// for pages that come from another machine. Either makes a guest's side something to be trusted.
//
// Threads: constructed and destroyed by the control thread; the callbacks are called by threads of
// librte_vhost, and by the destructor. All methods may be called from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "port/vhost/data_path.h"
#include "port/vhost/queue_states.h"

namespace headrace::port::vhost {

struct DeviceConfig {
  std::string name;      ///< of the port, for messages
  std::string socket;    ///< path, at most 107 octets
  bool client{false};    ///< we connect; else we listen
  bool offloads{true};   ///< checksums and segmentation are offered
  bool iommu{false};     ///< VIRTIO_F_ACCESS_PLATFORM is offered
  bool postcopy{false};  ///< migration after the switch-over is offered
  std::function<void()> on_link_event{};
  /// Returns when every worker has ended the round that it was in; not called by workers.
  std::function<void()> wait_for_workers{};
};

class Device {
 public:
  /// Starts to listen or to connect. `data` must outlive the device.
  static Result<std::unique_ptr<Device>> open(DeviceConfig config, DataPath& data);
  /// Ends the connection. Workers may still be in the data path: it waits for them.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// True while a guest's driver is ready; ends the service of one whose memory has gone. To be
  /// called a few times per second.
  bool look();
  /// What OVS says of a vhost-user port in the column `status`.
  [[nodiscard]] std::map<std::string, std::string> status() const;
  /// Times that a guest was kicked, one system call each.
  [[nodiscard]] uint64_t notifications() const;

 private:
  friend struct Callbacks;

  Device(DeviceConfig config, DataPath& data) : config_(std::move(config)), data_(data) {}
  Result<> start();
  /// Of the guest that is going to be served.
  void set_takes(uint64_t takes);

  // librte_vhost's callbacks:
  void connected(int vid);
  void disconnected(int vid);
  void ready(int vid);
  void gone(int vid);
  void vring_changed(int vid, uint16_t vring, bool enabled);
  void stop_looking(int vid);
  void look_again(int vid);
  /// Whether workers may access rings by themselves (packed_rings.h).
  [[nodiscard]] bool may_look() const { return !config_.iommu && !config_.postcopy; }

  const DeviceConfig config_;
  DataPath& data_;
  bool is_registered_{false};                 ///< its socket is known to be this device's
  bool has_driver_{false};                    ///< librte_vhost knows the socket
  mutable std::mutex mutex_;                  ///< guards what follows
  std::map<int, QueueStates> connected_;      ///< by vid
  int active_{-1};                            ///< the vid that workers use; -1: none
  uint64_t features_{0};                      ///< of that
  std::map<std::string, std::string> facts_;  ///< of that
  uint64_t notifications_before_{0};          ///< to guests that are gone
};

}  // namespace headrace::port::vhost
