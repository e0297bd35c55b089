// SPDX-License-Identifier: Apache-2.0
// A trust group's shared memory as the switch holds it: the region, an mbuf for each of its
// buffers, and the socket at which VNFs attach.
//
// A packet from one VNF of the group to another keeps its buffer: only its number moves. A packet
// from elsewhere is copied once; of one that leaves, its headers are the switch's (shm_packets.h).
//
// Attaching. A thread of its own, asleep but for connections, answers VNFs (shm/attach.h) and sees
// them go; the worker takes back what the VNF of a lost or removed port held.
//
// Threads: groups are made and found on the control thread and live as long as a port uses them. A
// group's rings, and the records of who has which buffer, have one owner at a time: the worker that
// polls all of its ports, and that others hand what they send to it (Port::owner_group();
// runtime/workers/ownership.h). Without ports there is no owner, and the control thread uses them.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "port/shm_packets.h"
#include "shm/direct_link.h"
#include "shm/region.h"
#include "shm/switch_end.h"

namespace headrace::port {

struct ShmGroupConfig {
  std::string name;
  std::string rundir;
  shm::RegionConfig region;
};

class ShmGroup {
 public:
  /// The group of this name, made if no port uses it yet. The sizes of an existing group stay as
  /// they are.
  static Result<std::shared_ptr<ShmGroup>> of(const ShmGroupConfig& config);
  ~ShmGroup();
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  /// Takes a free place for a port; an error if there is none or the name is taken.
  Result<uint32_t> add_port(const std::string& name);
  void remove_port(uint32_t port);

  [[nodiscard]] shm::SwitchEnd& ends() { return *ends_; }
  [[nodiscard]] shm::DirectLinks& links() { return *links_; }
  [[nodiscard]] shm::Region& region() { return region_; }
  [[nodiscard]] const std::string& socket_path() const { return socket_path_; }
  [[nodiscard]] ShmPackets& packets() { return packets_; }

  /// Worker: takes back what the VNFs of lost and removed ports held, when their direct links let
  /// it. In each round.
  void reclaim_lost() noexcept {
    links_->step_abandoned();
    if ((lost_.load(std::memory_order_relaxed) | draining_.load(std::memory_order_relaxed)) == 0) {
      return;
    }
    // Never waits: who attaches or is admitted right now is done by the next round.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) reclaim_ports();
  }
  /// Has `changed` called, in any thread, when the port's VNF has attached or gone.
  void watch(uint32_t port, std::function<void()> changed);
  [[nodiscard]] bool attached(uint32_t port) const {
    return (attached_.load(std::memory_order_relaxed) >> port & 1) != 0;
  }

 private:
  /// The mempool as the region's pool of buffers.
  class MbufPool : public shm::BufferPool {
   public:
    explicit MbufPool(ShmGroup& group) : group_(group) {}
    uint32_t take(std::span<uint32_t> buffers) override;
    void give(std::span<const uint32_t> buffers) override;

   private:
    ShmGroup& group_;
  };

  explicit ShmGroup(ShmGroupConfig config) : config_(std::move(config)), buffers_(*this) {}
  /// With the mutex held.
  void reclaim_ports() noexcept;
  Result<> listen();
  void serve();
  void answer(int connection);
  int admit(const std::string& name, uint32_t& port, bool known_version);
  void drop_connection(size_t index);
  /// With the mutex held.
  void set_attached(uint32_t port, bool attached);

  struct Connection {
    int fd;
    int port;  ///< -1 before its request
  };

  ShmGroupConfig config_;
  shm::Region region_;
  ShmPackets packets_;
  MbufPool buffers_;
  std::unique_ptr<shm::SwitchEnd> ends_;
  std::unique_ptr<shm::DirectLinks> links_;
  std::string socket_path_;
  int listener_{-1};
  int wake_{-1};
  std::atomic<uint64_t> lost_{0};  ///< ports, by bit, whose VNF is gone and has not been reclaimed
  /// Ports, by bit, that were reclaimed but for their direct ring, which a sender may still use.
  std::atomic<uint64_t> draining_{0};
  std::atomic<uint64_t> attached_{0};  ///< ports, by bit, that a VNF has
  /// Guards what follows, for the control thread and serve(); and who attaches, for the worker.
  std::mutex mutex_;
  std::array<std::function<void()>, shm::kMaxPorts> watchers_;
  std::array<std::string, shm::kMaxPorts> names_;
  std::vector<Connection> connections_;
  std::thread server_;
};

}  // namespace headrace::port
