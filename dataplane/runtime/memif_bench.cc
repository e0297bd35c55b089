// SPDX-License-Identifier: Apache-2.0
// Our memif end-point beside DPDK's net_memif, in the same place: the peer at the other end is
// always net_memif, on the other core. Prints, per frame size and direction, the rate and what the
// side under test spends per packet in calls that moved something.
//
//     memif_bench [CPU_OF_PEER CPU_UNDER_TEST]      prints medians
//
// Windows of the two alternate, so that slow moments of the machine meet both.
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "eal/eal.h"
#include "eal/ethdev.h"
#include "eal/mempool.h"
#include "eal/thread.h"
#include "pipeline/terms/port_io.h"
#include "port/memif/endpoint.h"

namespace headrace {
namespace {

using pipeline::kBurst;
using std::chrono::milliseconds;

constexpr milliseconds kWindow{120};
constexpr int kRepeats = 15;

/// One side of a memif link.
class Side {
 public:
  virtual ~Side() = default;
  virtual uint16_t send(std::span<rte_mbuf*> packets) = 0;
  virtual uint16_t receive(std::span<rte_mbuf*> packets) = 0;
  [[nodiscard]] virtual bool is_up() const = 0;
};

class NetMemif final : public Side {
 public:
  NetMemif(const std::string& name, const std::string& socket, bool server, rte_mempool* pool) {
    const std::string args = fmt::format("{},role={},socket={},socket-abstract=no,rsize=10", name,
                                         server ? "server" : "client", socket);
    auto device = eal::Ethdev::probe(args);
    if (!device || !(*device)->configure({.segmented_tx = false}) ||
        !(*device)->set_up_queues(pool) || !(*device)->start()) {
      std::exit(1);
    }
    device_ = std::move(*device);
  }
  uint16_t send(std::span<rte_mbuf*> packets) override {
    return rte_eth_tx_burst(device_->id(), 0, packets.data(),
                            static_cast<uint16_t>(packets.size()));
  }
  uint16_t receive(std::span<rte_mbuf*> packets) override {
    return rte_eth_rx_burst(device_->id(), 0, packets.data(),
                            static_cast<uint16_t>(packets.size()));
  }
  [[nodiscard]] bool is_up() const override { return device_->link().up; }

 private:
  std::unique_ptr<eal::Ethdev> device_;
};

class Ours final : public Side {
 public:
  Ours(asio::io_context& io, const std::string& socket, rte_mempool* pool) : pool_(pool) {
    auto endpoint =
        port::memif::Endpoint::open(io, reclaimer_, {.name = "bench", .socket = socket});
    if (!endpoint) std::exit(1);
    endpoint_ = *endpoint;
  }
  uint16_t send(std::span<rte_mbuf*> packets) override { return endpoint_->send(0, packets); }
  uint16_t receive(std::span<rte_mbuf*> packets) override {
    return endpoint_->receive(0, pool_, packets);
  }
  [[nodiscard]] bool is_up() const override { return endpoint_->is_up(); }

 private:
  pipeline::ImmediateReclaimer reclaimer_;
  rte_mempool* pool_;
  std::shared_ptr<port::memif::Endpoint> endpoint_;
};

struct Rate {
  double mpps;
  double cycles;
};

void keep_sending(Side& side, rte_mempool* pool, uint16_t size, const std::atomic<bool>& stop,
                  uint64_t& packets, uint64_t& cycles) {
  std::array<rte_mbuf*, kBurst> burst;
  while (!stop.load(std::memory_order_relaxed)) {
    if (rte_pktmbuf_alloc_bulk(pool, burst.data(), kBurst) != 0) continue;
    for (rte_mbuf* packet : burst) {
      *reinterpret_cast<uint64_t*>(rte_pktmbuf_append(packet, size)) = packets;
    }
    const uint64_t begin = rte_rdtsc();
    const uint16_t sent = side.send(burst);
    if (sent > 0) {
      cycles += rte_rdtsc() - begin;
      packets += sent;
    }
    rte_pktmbuf_free_bulk(burst.data() + sent, kBurst - sent);
  }
}

void keep_receiving(Side& side, const std::atomic<bool>& stop, uint64_t& packets,
                    uint64_t& cycles) {
  std::array<rte_mbuf*, kBurst> burst;
  while (!stop.load(std::memory_order_relaxed)) {
    const uint64_t begin = rte_rdtsc();
    const uint16_t count = side.receive(burst);
    if (count == 0) continue;
    cycles += rte_rdtsc() - begin;
    packets += count;
    rte_pktmbuf_free_bulk(burst.data(), count);
  }
}

/// What `tested` does on `cpu` while the other side keeps it busy from `peer_cpu`.
Rate measure(Side& tested, Side& peer, bool tested_sends, rte_mempool* pool, uint16_t size,
             unsigned cpu, unsigned peer_cpu) {
  std::atomic<bool> stop{false};
  uint64_t packets[2]{};
  uint64_t cycles[2]{};
  const auto run = [&](Side& side, bool sends, unsigned on, unsigned which) {
    const eal::DpdkThread registered;
    if (!eal::pin_this_thread(on)) std::exit(1);
    if (sends) return keep_sending(side, pool, size, stop, packets[which], cycles[which]);
    keep_receiving(side, stop, packets[which], cycles[which]);
  };
  const auto begin = std::chrono::steady_clock::now();
  std::thread first([&] { run(tested, tested_sends, cpu, 0); });
  std::thread second([&] { run(peer, !tested_sends, peer_cpu, 1); });
  std::this_thread::sleep_for(kWindow);
  stop = true;
  first.join();
  second.join();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::array<rte_mbuf*, kBurst> rest;
  for (Side* side : {&tested, &peer}) {
    while (const uint16_t count = side->receive(rest)) rte_pktmbuf_free_bulk(rest.data(), count);
  }
  if (packets[0] == 0) std::exit(1);
  return {static_cast<double>(packets[tested_sends ? 1 : 0]) / seconds.count() / 1e6,
          static_cast<double>(cycles[0]) / static_cast<double>(packets[0])};
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void run(unsigned peer_cpu, unsigned cpu) {
  const auto eal = eal::Eal::init(
      {.file_prefix = fmt::format("headrace-memif-bench-{}", ::getpid()), .memory_mb = 256});
  if (!eal) {
    std::fprintf(stderr, "%s\n", eal.error().message.c_str());
    std::exit(1);
  }
  auto pool = eal::make_mempool({.name = "bench", .buffers = 32767});
  if (!pool) std::exit(1);
  asio::io_context io(1);
  const std::string base = fmt::format("/tmp/headrace-memif-bench-{}-", ::getpid());
  {
    Ours ours(io, base + "ours", pool->get());
    NetMemif ours_peer("net_memif_a", base + "ours", false, pool->get());
    NetMemif theirs("net_memif_b", base + "theirs", true, pool->get());
    NetMemif theirs_peer("net_memif_c", base + "theirs", false, pool->get());
    for (int i = 0; i < 500 && !(ours.is_up() && ours_peer.is_up() && theirs_peer.is_up()); ++i) {
      io.restart();
      io.run_for(milliseconds(10));
    }
    std::printf("%-10s %-8s %12s %12s %12s %12s\n", "frame", "", "ours Mpps", "net_memif",
                "ours cyc/p", "net_memif");
    for (const uint16_t size : {uint16_t{60}, uint16_t{256}, uint16_t{1514}}) {
      for (const bool sends : {false, true}) {
        std::map<std::string, std::vector<double>> values;
        for (int repeat = 0; repeat < kRepeats; ++repeat) {
          const Rate a = measure(ours, ours_peer, sends, pool->get(), size, cpu, peer_cpu);
          const Rate b = measure(theirs, theirs_peer, sends, pool->get(), size, cpu, peer_cpu);
          values["a"].push_back(a.mpps);
          values["b"].push_back(b.mpps);
          values["ac"].push_back(a.cycles);
          values["bc"].push_back(b.cycles);
        }
        std::printf("%-10u %-8s %12.2f %12.2f %12.0f %12.0f\n", size, sends ? "send" : "receive",
                    median(values["a"]), median(values["b"]), median(values["ac"]),
                    median(values["bc"]));
      }
    }
  }
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  const unsigned peer_cpu = argc == 3 ? static_cast<unsigned>(std::atoi(argv[1])) : 0;
  const unsigned cpu = argc == 3 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  headrace::run(peer_cpu, cpu);
  return 0;
}
