// SPDX-License-Identifier: Apache-2.0
// A shared-memory port of a Headrace switch as a port of the function: packets are passed as ring
// descriptors. A packet that the function sends from outside the region is copied once.
//
// The switch may start later: update_link() attaches then. When the switch exits, update_link()
// fails: the region and the packets in it are lost. A VM has no socket to attach to and can't see a
// connection's end: the program that started the VM attached on its behalf
// (headrace/engines/shared_memory.py).
#pragma once

#include <atomic>

#include "vnf/device.h"
#include "vnf/shm_memory.h"

namespace headrace::vnf {

class ShmDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> open(const PortConfig& config);
  /// Returns all buffers that the port holds to the switch.
  ~ShmDevice() override;

  uint16_t rx(std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept override;
  Result<> update_link() override;

 private:
  explicit ShmDevice(const PortConfig& config) : Device(config) {}
  Result<> attach();
  Result<> attach_memory();
  /// Maps the region and starts using the port with this number, or with our name.
  Result<> use_port(int region, std::optional<uint32_t> port);
  [[nodiscard]] uint64_t missed() const override { return malformed_.read(); }

  /// The packet's descriptor, or that of a copy if its buffer is outside the region. kNone: no free
  /// buffer.
  shm::Packet to_descriptor(rte_mbuf* packet) noexcept;
  shm::Packet copy(rte_mbuf* packet) noexcept;
  static constexpr shm::Packet kNone{.buffer = ~0u, .begin = 0, .length = 0};

  std::shared_ptr<ShmMemory> memory_;
  shm::VnfEnd end_;
  int connection_{-1};
  std::atomic<bool> attached_{false};
  Counter malformed_;  ///< not inside their buffer: a faulty VNF in the group
};

}  // namespace headrace::vnf
