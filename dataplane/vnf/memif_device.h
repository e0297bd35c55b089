// SPDX-License-Identifier: Apache-2.0
// A port by memif, by our own end-point: it waits for its peer and finds one that was restarted
// again, as often as that happens (port/memif/standalone.h).
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <memory>

#include "port/memif/standalone.h"
#include "vnf/device.h"

namespace headrace::vnf {

class MemifDevice final : public Device {
 public:
  /// Its socket is made, or connected to, by the first keep_up(), in the thread of `io`.
  MemifDevice(const PortConfig& config, port::memif::EndpointConfig endpoint, rte_mempool* pool,
              asio::io_context& io);

  uint16_t rx(std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(std::span<rte_mbuf*> packets) noexcept override;
  Result<> keep_up() override;

 private:
  [[nodiscard]] uint64_t missed() const override;

  port::memif::EndpointConfig wanted_;
  rte_mempool* pool_;
  asio::io_context& io_;
  std::unique_ptr<port::memif::Standalone> memif_;
  std::atomic<port::memif::Standalone*> opened_{nullptr};  ///< memif_, for the worker
};

}  // namespace headrace::vnf
