// SPDX-License-Identifier: Apache-2.0
// A memif interface for a program without the switch's workers: a VNF, the generator. One queue
// each way, and grace periods of its own.
//
// Configured by the device arguments of DPDK's net_memif ("net_memif0,role=client,
// socket=/run/x.sock,socket-abstract=no,id=0"). That driver has two faults which this one has not:
// on disconnection a thread of its own unmaps the rings while another thread may be in a burst, and
// a client does not reconnect to a restarted server.
//
// Grace periods: receive() and send() are bracketed by a Use, which counts up before the link's
// pointer is read and after the last access. What the end-point retires is freed once no Use that
// began before is still open.
//
// Thread safety: receive() by one thread, send() by one, maybe another; all else by the thread of
// the io_context.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "pipeline/terms/reclaimer.h"
#include "port/memif/endpoint.h"

namespace headrace::port::memif {

/// Grace periods for two user threads, which need not report quiescent states when idle.
class UseReclaimer final : public pipeline::Reclaimer {
 public:
  enum User : size_t { receiver, sender };

  explicit UseReclaimer(asio::io_context& io) : timer_(io) {}
  /// There must be no users any more. What is still deferred runs now.
  ~UseReclaimer() override;

  /// A user's read-side critical section: as long as the object lives.
  class Use {
   public:
    Use(UseReclaimer& reclaimer, User user) noexcept : count_(reclaimer.counts_[user].value) {
      count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      // Orders the count before the loads that follow. Without it this thread could load the old
      // pointer while the control thread, which stores the pointer first, reads the old count.
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    ~Use() { count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::atomic<uint64_t>& count_;
  };

  void defer(std::function<void()> function) override;
  [[nodiscard]] size_t pending() const { return deferred_.size(); }

 private:
  /// Odd within a use.
  struct alignas(64) Count {
    std::atomic<uint64_t> value{0};
  };
  using Seen = std::array<uint64_t, 2>;
  struct Deferred {
    Seen seen;
    std::function<void()> function;
  };
  [[nodiscard]] bool over(const Seen& seen) const;
  void run_due();

  asio::steady_timer timer_;
  std::array<Count, 2> counts_;
  std::deque<Deferred> deferred_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class Standalone {
 public:
  /// Starts to listen or to connect; `config.queues` must be 1. `io` must outlive it.
  static Result<std::unique_ptr<Standalone>> open(asio::io_context& io, EndpointConfig config);

  /// As rte_eth_rx_burst() and rte_eth_tx_burst().
  uint16_t receive(rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept {
    const UseReclaimer::Use use(reclaimer_, UseReclaimer::receiver);
    return endpoint_->receive(0, pool, packets);
  }
  uint16_t send(std::span<rte_mbuf*> packets) noexcept {
    const UseReclaimer::Use use(reclaimer_, UseReclaimer::sender);
    return endpoint_->send(0, packets);
  }

  [[nodiscard]] const Endpoint& endpoint() const { return *endpoint_; }

 private:
  explicit Standalone(asio::io_context& io) : reclaimer_(io) {}

  UseReclaimer reclaimer_;
  std::shared_ptr<Endpoint> endpoint_;
};

/// The arguments of a net_memif device, read; nothing if they name another device, or need
/// what only DPDK's driver has (an abstract socket, which is its default, or zero-copy).
/// Fails with the argument that is wrong.
Result<std::optional<EndpointConfig>> read_net_memif(const std::string& devargs);

}  // namespace headrace::port::memif
