// SPDX-License-Identifier: Apache-2.0
// A port of the generator on a shared-memory port of a Headrace switch (dataplane/shm), from
// "shm,socket=/run/group.shm,port=NAME". Every packet is copied once, as over memif: out of the
// generator's buffers when it is sent, into them when it is received.
//
// Thread safety: as traffic_port.h.
#pragma once

#include <rte_mbuf.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/counter.h"
#include "base/result.h"
#include "shm/vnf_end.h"

namespace headrace::traffic {

struct ShmPortName {
  std::string socket;  ///< of the port's trust group
  std::string port;    ///< its name in the switch
};

class ShmPort {
 public:
  /// What the arguments name; nothing if they are of another kind of device.
  static Result<std::optional<ShmPortName>> read(const std::string& devargs);
  /// Attaches to the port. Fails if the switch has no such port, if it has a user, or if frames of
  /// `max_frame` octets don't fit its buffers.
  static Result<std::unique_ptr<ShmPort>> open(const ShmPortName& name, uint16_t max_frame);
  /// Returns all buffers to the switch.
  ~ShmPort();
  ShmPort(const ShmPort&) = delete;
  ShmPort& operator=(const ShmPort&) = delete;

  uint16_t receive(rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept;
  uint16_t send(std::span<rte_mbuf*> packets) noexcept;
  /// Whether the switch still has the port.
  [[nodiscard]] bool is_up() const;

  struct Counts {
    Counter rx_packets, rx_bytes, tx_packets, tx_bytes;
    Counter no_buffer;  ///< received, but the pool was empty
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Packets that did not lie inside a buffer of the region.
  [[nodiscard]] uint64_t malformed() const { return end_.malformed(); }

 private:
  ShmPort() = default;

  std::span<uint8_t> memory_;
  shm::VnfEnd end_;
  int connection_{-1};
  Counts counts_;
};

}  // namespace headrace::traffic
