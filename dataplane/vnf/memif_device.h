// SPDX-License-Identifier: Apache-2.0
// A memif port on our own end-point (port/memif/standalone.h): it waits for its peer, and
// reconnects whenever the peer restarts.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <memory>

#include "port/memif/standalone.h"
#include "vnf/device.h"

namespace headrace::vnf {

class MemifDevice final : public Device {
 public:
  /// The first update_link() makes its socket or connects to it, in the thread of `io`.
  MemifDevice(const PortConfig& config, port::memif::EndpointConfig endpoint, rte_mempool* pool,
              asio::io_context& io);

  uint16_t rx(std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept override;
  Result<> update_link() override;

 private:
  [[nodiscard]] uint64_t missed() const override;

  port::memif::EndpointConfig wanted_;
  rte_mempool* pool_;
  asio::io_context& io_;
  std::unique_ptr<port::memif::Standalone> memif_;
  std::atomic<port::memif::Standalone*> opened_{nullptr};  ///< memif_, for the worker
};

}  // namespace headrace::vnf
