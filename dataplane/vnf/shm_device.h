// SPDX-License-Identifier: Apache-2.0
// A port of a Headrace switch as a port of the function, by shared memory: packets are passed by
// the slots of rings. What the function sends from outside the region is copied once.
//
// The switch may start later: keep_up() attaches then. When the switch exits, keep_up() fails: the
// region and the packets in it are lost. In a VM there is no socket to attach by and no connection
// whose end could be seen: the program that started the VM attached for it
// (headrace/engines/shared_memory.py).
#pragma once

#include <atomic>

#include "vnf/device.h"
#include "vnf/shm_memory.h"

namespace headrace::vnf {

class ShmDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(const PortConfig& config);
  /// Gives back all that the port holds.
  ~ShmDevice() override;

  uint16_t rx(std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept override;
  Result<> keep_up() override;

 private:
  explicit ShmDevice(const PortConfig& config) : Device(config) {}
  Result<> attach();
  Result<> attach_memory();
  /// Maps the region and begins to use the port of this number, or of our name.
  Result<> use(int region, std::optional<uint32_t> port);
  [[nodiscard]] uint64_t missed() const override { return malformed_.read(); }
  /// The packet, or a copy if it is of elsewhere. kNone: no buffer.
  shm::Packet described(rte_mbuf* packet) noexcept;
  shm::Packet copy(rte_mbuf* packet) noexcept;
  static constexpr shm::Packet kNone{.buffer = ~0u, .begin = 0, .length = 0};

  std::shared_ptr<ShmMemory> memory_;
  shm::VnfEnd end_;
  int connection_{-1};
  std::atomic<bool> attached_{false};
  Counter malformed_;  ///< not inside their buffer: another VNF of the group is broken
};

}  // namespace headrace::vnf
