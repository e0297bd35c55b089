// SPDX-License-Identifier: Apache-2.0
#include "channel/ethdev_channel.h"

#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "channel/payload.h"
#include "eal/eal.h"
#include "eal/ethdev.h"
#include "eal/mempool.h"

namespace headrace::channel {
namespace {

constexpr auto kTimeout = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(5);

/// A device with one queue each way, and its EAL.
class Device {
 public:
  static Result<std::unique_ptr<Device>> open(const std::string& devargs,
                                              const EthdevOptions& options, uint32_t cpu) {
    std::unique_ptr<Device> device(new Device);
    auto eal =
        eal::Eal::init({.main_cpu = cpu, .memory_mb = options.memory_mb, .log_level = "error"});
    if (!eal) return tl::unexpected(eal.error());
    device->eal_ = std::move(*eal);
    // More than the rings of both sides and a cache hold: with zero copy all of them are in use.
    auto pool = eal::make_mempool({.name = "channel", .buffers = 8191});
    if (!pool) return tl::unexpected(pool.error());
    device->pool_ = std::move(*pool);
    if (auto started = device->start(devargs, options.descriptors); !started) {
      return tl::unexpected(started.error());
    }
    return device;
  }

  [[nodiscard]] uint16_t id() const { return ethdev_->id(); }
  [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }

 private:
  Device() = default;

  Result<> start(const std::string& devargs, uint16_t descriptors) {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    const auto wait = [deadline] {
      std::this_thread::sleep_for(kPause);
      return std::chrono::steady_clock::now() < deadline;
    };
    // A virtio-user client can be created only after the other end has created its server.
    auto ethdev = eal::Ethdev::probe(devargs);
    while (!ethdev && ethdev.error().code == "no_peer" && wait()) {
      ethdev = eal::Ethdev::probe(devargs);
    }
    if (!ethdev) return tl::unexpected(ethdev.error());
    ethdev_ = std::move(*ethdev);
    Result<> done = ethdev_->configure({.rx_descriptors = descriptors,
                                        .tx_descriptors = descriptors,
                                        .segmented_tx = false,
                                        .link_interrupt = true});
    if (done) done = ethdev_->set_up_queues(pool_.get());
    if (!done) return fail("'{}': {}", devargs, done.error().message);
    while (!(done = ethdev_->start()) && wait()) {
    }
    if (!done) return fail("'{}': {}", devargs, done.error().message);
    if (Result<> set = ethdev_->set_promiscuous(); !set) {
      return fail("'{}': {}", devargs, set.error().message);
    }
    while (!ethdev_->link().up) {
      if (!wait()) return fail("'{}' found no peer within 10 s", devargs);
    }
    return {};
  }

  std::unique_ptr<eal::Eal> eal_;
  eal::Mempool pool_;
  std::unique_ptr<eal::Ethdev> ethdev_;
};

class Producer final : public End {
 public:
  explicit Producer(std::unique_ptr<Device> device) : device_(std::move(device)) {
    // Packets that are not touched are sent with whatever their buffers contain.
    rte_mempool_obj_iter(
        device_->pool(),
        [](rte_mempool*, void*, void* buffer, unsigned) {
          write_header(rte_pktmbuf_mtod(static_cast<rte_mbuf*>(buffer), uint8_t*));
        },
        nullptr);
  }
  ~Producer() override { rte_pktmbuf_free_bulk(packets_.data(), pending_); }

  PollResult poll(const Work& work) override {
    if (pending_ == 0) {
      // No packets while all buffers are in flight.
      if (rte_pktmbuf_alloc_bulk(device_->pool(), packets_.data(), kBurst) != 0) return {};
      pending_ = kBurst;
      for (rte_mbuf* packet : packets_) {
        packet->data_len = static_cast<uint16_t>(work.length);
        packet->pkt_len = work.length;
      }
      if (work.touch) {
        for (rte_mbuf* packet : packets_) {
          prefetch_to_write(rte_pktmbuf_mtod(packet, uint8_t*), work.length);
        }
        for (rte_mbuf* packet : packets_) {
          write_lines(rte_pktmbuf_mtod(packet, uint8_t*), work.length, ++word_);
        }
      }
    }
    const uint16_t sent = rte_eth_tx_burst(device_->id(), 0, packets_.data(), pending_);
    pending_ = static_cast<uint16_t>(pending_ - sent);
    std::copy_n(packets_.begin() + sent, pending_, packets_.begin());
    return {.packets = sent};
  }

 private:
  std::unique_ptr<Device> device_;
  std::array<rte_mbuf*, kBurst> packets_{};
  uint16_t pending_{0};
  uint64_t word_{0};
};

class Consumer final : public End {
 public:
  explicit Consumer(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  PollResult poll(const Work& work) override {
    std::array<rte_mbuf*, kBurst> packets;
    const uint16_t count = rte_eth_rx_burst(device_->id(), 0, packets.data(), kBurst);
    PollResult done;
    for (uint16_t i = 0; work.touch && i < count; ++i) {
      prefetch_to_read(rte_pktmbuf_mtod(packets[i], const uint8_t*), work.length);
    }
    for (uint16_t i = 0; i < count; ++i) {
      // The kernel sends other frames (IPv6, LLDP) on its interfaces.
      if (packets[i]->pkt_len != work.length || packets[i]->nb_segs != 1) {
        ++done.foreign;
      } else if (work.touch &&
                 !read_lines(rte_pktmbuf_mtod(packets[i], const uint8_t*), work.length)) {
        ++done.corrupt;
      }
    }
    rte_pktmbuf_free_bulk(packets.data(), count);
    done.packets = count - done.foreign;
    return done;
  }

 private:
  std::unique_ptr<Device> device_;
};

class EthdevChannel final : public Channel {
 public:
  explicit EthdevChannel(EthdevOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<End>> open(Role role, uint32_t cpu) override {
    const bool produces = role == Role::producer;
    auto device = Device::open(produces ? options_.producer : options_.consumer, options_, cpu);
    if (!device) return tl::unexpected(device.error());
    if (produces) return std::make_unique<Producer>(std::move(*device));
    return std::make_unique<Consumer>(std::move(*device));
  }

 private:
  EthdevOptions options_;
};

}  // namespace

Result<std::unique_ptr<Channel>> make_ethdev_channel(const EthdevOptions& options) {
  if (options.producer.empty() || options.consumer.empty()) {
    return fail("ethdev needs --producer and --consumer: the two devices");
  }
  return std::make_unique<EthdevChannel>(options);
}

}  // namespace headrace::channel
