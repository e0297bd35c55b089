// SPDX-License-Identifier: Apache-2.0
// A trust group's shared memory as the switch holds it: the region, an mbuf for each of its
// buffers, and the socket at which VNFs attach.
//
// Mbufs. Each buffer of the region has one mbuf for ever, in the switch's own memory, whose data
// are the buffer's octets (an external-buffer pool). So the pipeline works on shared packets as on
// any others, frees them as any others, and no VNF can reach an mbuf's words. A packet from one VNF
// of the group to another keeps its buffer: only its number moves. A packet from elsewhere is
// copied once.
//
// Attaching. A thread of its own, asleep but for connections, answers VNFs (shm/attach.h) and sees
// them go; the port's worker takes back what a lost VNF held.
//
// Threads: groups are made and found on the control thread, live as long as a port uses them, and
// their rings are used by the one worker that polls their ports.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
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
  /// The group of this name, made if no port uses it yet. A group that exists keeps its measures.
  static Result<std::shared_ptr<ShmGroup>> of(const ShmGroupConfig& config);
  ~ShmGroup();
  ShmGroup(const ShmGroup&) = delete;
  ShmGroup& operator=(const ShmGroup&) = delete;

  /// Takes a free place for a port; an error if there is none or the name is taken.
  Result<uint32_t> add_port(const std::string& name);
  void remove_port(uint32_t port);

  [[nodiscard]] shm::SwitchEnd& ends() { return *ends_; }
  [[nodiscard]] shm::Region& region() { return region_; }
  [[nodiscard]] const std::string& socket_path() const { return socket_path_; }
  [[nodiscard]] rte_mbuf* mbuf(uint32_t buffer) const { return mbufs_[buffer]; }
  /// The buffer of an mbuf of this group; the caller checked that its pool is pool().
  [[nodiscard]] static uint32_t buffer_of(rte_mbuf* packet) {
    return *rte_mbuf_to_priv_number(packet);
  }
  [[nodiscard]] rte_mempool* pool() const { return pool_; }

  /// Worker: true once after the VNF of a port is gone.
  [[nodiscard]] bool lost(uint32_t port) {
    return lost_[port].load(std::memory_order_relaxed) &&
           lost_[port].exchange(false, std::memory_order_acquire);
  }
  [[nodiscard]] bool attached(uint32_t port) const {
    return region_.port(port).user.load(std::memory_order_relaxed) != 0;
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
  static uint32_t* rte_mbuf_to_priv_number(rte_mbuf* packet) {
    return reinterpret_cast<uint32_t*>(packet + 1);
  }
  Result<> make_pool();
  Result<> listen();
  void serve();
  void answer(int connection);
  int admit(const std::string& name, uint32_t& port, bool known_version);
  void drop_connection(size_t index);

  struct Connection {
    int fd;
    int port;  ///< -1 until it has asked
  };

  ShmGroupConfig config_;
  shm::Region region_;
  rte_mempool* pool_{nullptr};
  std::vector<rte_mbuf*> mbufs_;
  MbufPool buffers_;
  std::unique_ptr<shm::SwitchEnd> ends_;
  std::string socket_path_;
  int listener_{-1};
  int wake_{-1};
  std::array<std::atomic<bool>, shm::kMaxPorts> lost_{};
  std::mutex names_mutex_;  ///< guards names_: the control thread and serve()
  std::array<std::string, shm::kMaxPorts> names_;
  std::vector<Connection> connections_;  ///< serve()'s
  std::thread server_;
};

}  // namespace headrace::port
