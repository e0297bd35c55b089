// SPDX-License-Identifier: Apache-2.0
// A port of the generator, with one receive and one transmit queue, made from DPDK vdev arguments:
// an ethdev, or a memif of port/memif, which reconnects to its peer; or a port of a Headrace switch
// by shared memory. The destructor removes it.
//
// Thread safety: made, queried and destroyed by the control thread while no trial uses it; during a
// trial one worker calls receive(), and one, possibly another, send().
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/result.h"
#include "eal/ethdev.h"
#include "eal/mempool.h"
#include "port/memif/standalone.h"
#include "traffic/ports/shm_port.h"

namespace headrace::traffic {

struct PortOptions {
  std::string name;     ///< its name in the generator
  std::string devargs;  ///< "net_memif0,role=client,socket=/run/x.sock": a vdev, as EAL's --vdev
  std::string mac;      ///< empty: the device's own
  uint16_t descriptors{1024};
  uint16_t max_frame{1518};  ///< with FCS; sets the buffers' size and the MTU
};

/// The value of `key` in "name,key=value,...", or "".
std::string devarg(const std::string& devargs, const std::string& key);

class TrafficPort {
 public:
  /// Makes, configures and starts the device. Errors name the member at fault ("/devargs: ...").
  static Result<std::unique_ptr<TrafficPort>> open(const PortOptions& options);
  /// The same for a memif of port/memif, which waits for its peer; in the thread of `io`.
  static Result<std::unique_ptr<TrafficPort>> open_memif(const PortOptions& options,
                                                         port::memif::EndpointConfig memif,
                                                         asio::io_context& io);
  /// The same for a port of a Headrace switch by shared memory.
  static Result<std::unique_ptr<TrafficPort>> open_shm(const PortOptions& options,
                                                       const ShmPortName& shm);
  /// Stops and removes the device, then its buffers.
  ~TrafficPort();
  TrafficPort(const TrafficPort&) = delete;
  TrafficPort& operator=(const TrafficPort&) = delete;

  [[nodiscard]] const std::string& name() const { return options_.name; }
  /// Unique among the ports of the process.
  [[nodiscard]] uint16_t number() const { return number_; }
  [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }
  [[nodiscard]] uint16_t max_frame() const { return options_.max_frame; }
  [[nodiscard]] bool link_up() const;
  /// Receives a burst; returns the number of packets.
  uint16_t receive(std::span<rte_mbuf*> packets) const noexcept {
    if (memif_) return memif_->receive(pool_.get(), packets);
    if (shm_) return shm_->receive(pool_.get(), packets);
    return rte_eth_rx_burst(device_->id(), 0, packets.data(),
                            static_cast<uint16_t>(packets.size()));
  }
  /// Sends as many packets as fit; returns their number. The caller keeps the rest.
  uint16_t send(std::span<rte_mbuf*> packets) const noexcept {
    if (memif_) return memif_->send(packets);
    if (shm_) return shm_->send(packets);
    return rte_eth_tx_burst(device_->id(), 0, packets.data(),
                            static_cast<uint16_t>(packets.size()));
  }
  /// {"name","devargs","mac","link","device":{rx/tx counters of the driver}}
  [[nodiscard]] nlohmann::json to_json() const;

 private:
  explicit TrafficPort(PortOptions options);
  Result<> attach();
  Result<> configure();
  Result<> make_pool(uint32_t descriptors);
  [[nodiscard]] nlohmann::json counters() const;

  PortOptions options_;
  uint16_t number_;
  eal::Mempool pool_;  ///< outlives the device
  std::unique_ptr<eal::Ethdev> device_;
  std::unique_ptr<port::memif::Standalone> memif_;  ///< instead of an ethdev
  std::unique_ptr<ShmPort> shm_;                    ///< the same
};

}  // namespace headrace::traffic
