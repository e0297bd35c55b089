// SPDX-License-Identifier: Apache-2.0
// One memif interface, server or client: connects, and reconnects after the peer has gone.
//
// Workers use a Link (link.h), published by an atomic pointer. When the connection ends, the
// pointer is cleared and the Link with its mappings is freed a grace period later, so no worker
// accesses unmapped memory. The peer's exit alone invalidates no mapping.
//
// A client retries every kRetry; a server accepts the next client. So either side may be restarted.
//
// Thread safety: receive() and send() by workers; all else by the thread of the io_context.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/terms/reclaimer.h"
#include "port/memif/channel.h"
#include "port/memif/link.h"
#include "port/memif/listener.h"

namespace headrace::port::memif {

enum class Role { server, client };

inline constexpr uint32_t kDefaultMemoryMb = 1024;

struct EndpointConfig {
  std::string name;    ///< for the log and the peer
  std::string socket;  ///< path
  uint32_t id{0};
  Role role{Role::server};
  std::string secret;           ///< at most 23 characters; "" = none
  uint16_t queues{1};           ///< each way; the peer must have as many
  unsigned log2_ring_size{10};  ///< client: of its rings, at most 14
  uint32_t buffer_size{2048};   ///< client: of its buffers
  bool trusts_memory{false};    ///< server: take memory that can shrink
  uint64_t memory_limit{uint64_t{kDefaultMemoryMb}
                        << 20};  ///< server: octets that a peer may share
  std::function<void()> on_link_event;
};

class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  static constexpr std::chrono::milliseconds kRetry{100};
  /// A peer that does not get through the handshake in this time is dropped.
  static constexpr std::chrono::milliseconds kPatience{3000};

  /// Starts to listen or to connect. Both references must outlive the endpoint.
  static Result<std::shared_ptr<Endpoint>> open(asio::io_context& io,
                                                pipeline::Reclaimer& reclaimer,
                                                EndpointConfig config);
  /// No worker may use it any more.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Workers:
  uint16_t receive(uint16_t queue, rte_mempool* pool, std::span<rte_mbuf*> packets) noexcept {
    Link* link = link_.load(std::memory_order_acquire);
    return link == nullptr ? 0 : link->receive(queue, pool, packets);
  }
  uint16_t send(uint16_t queue, std::span<rte_mbuf*> packets) noexcept {
    Link* link = link_.load(std::memory_order_acquire);
    return link == nullptr ? 0 : link->send(queue, packets);
  }

  // Control:
  [[nodiscard]] bool is_up() const { return link_.load(std::memory_order_relaxed) != nullptr; }
  [[nodiscard]] const EndpointConfig& config() const { return config_; }
  [[nodiscard]] const QueueCounts& receive_counts(uint16_t queue) const { return received_[queue]; }
  [[nodiscard]] const QueueCounts& send_counts(uint16_t queue) const { return sent_[queue]; }
  /// The peer's names for itself and its interface; "" without a peer.
  [[nodiscard]] const std::string& peer() const { return peer_; }
  /// Why there is no connection; "" if no error was seen.
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  /// A ring as the peer announced it.
  struct Announced {
    uint16_t region;
    uint32_t offset;
    uint8_t log2_size;
  };

  Endpoint(asio::io_context& io, pipeline::Reclaimer& reclaimer, EndpointConfig config);

  // Server:
  Result<> serve();
  void take(const std::shared_ptr<Channel>& channel, const Init& init);
  void from_client(const Message& message, FileDescriptor file);
  Result<> add_region(const AddRegion& region, const FileDescriptor& file);
  Result<> add_ring(const AddRing& ring);
  Result<std::unique_ptr<Link>> link_announced();
  Result<RingPlace> place_of(const std::optional<Announced>& ring) const;

  // Client:
  void connect();
  void from_server(const Message& message);
  Result<> lay_out(const Hello& hello);
  void send_next();

  // Both:
  void attach(std::shared_ptr<Channel> channel);
  void publish(std::unique_ptr<Link> link);
  std::unique_ptr<Link> link_laid_out();
  void lose(const std::string& reason);
  void refuse(const std::string& reason);
  void schedule(std::chrono::milliseconds delay);

  asio::io_context& io_;
  pipeline::Reclaimer& reclaimer_;
  EndpointConfig config_;
  std::vector<QueueCounts> received_;
  std::vector<QueueCounts> sent_;
  std::atomic<Link*> link_{nullptr};
  std::shared_ptr<Listener> listener_;
  std::shared_ptr<Channel> channel_;
  asio::steady_timer timer_;
  std::string peer_;
  std::string last_error_;

  // Of the handshake under way:
  std::vector<Region> regions_;
  std::vector<std::optional<Announced>> to_server_;
  std::vector<std::optional<Announced>> to_client_;
  std::vector<RingPlace> laid_out_;  ///< by queue: to the server, then to the client
  std::deque<std::pair<Message, FileDescriptor>> unsent_;
};

}  // namespace headrace::port::memif
