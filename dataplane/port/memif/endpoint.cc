// SPDX-License-Identifier: Apache-2.0
#include "port/memif/endpoint.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace headrace::port::memif {
namespace {

constexpr unsigned kMinLog2RingSize = 2;  // so that rings are whole cache lines
constexpr unsigned kMaxLog2RingSize = 14;
constexpr size_t kMaxRegions = 256;
constexpr uint64_t kPage = 4096;

bool same_secret(const std::string& ours, const Init& init) {
  char expected[kSecretSize]{};
  ours.copy(expected, kSecretSize - 1);
  // In constant time: the secret is not to be found out letter by letter.
  int different = 0;
  for (size_t i = 0; i < kSecretSize; ++i) different |= expected[i] ^ init.secret[i];
  return different == 0;
}

Message message_of(MessageType type) {
  Message message{};
  message.type = type;
  return message;
}

}  // namespace

Result<std::shared_ptr<Endpoint>> Endpoint::open(asio::io_context& io,
                                                 pipeline::Reclaimer& reclaimer,
                                                 EndpointConfig config) {
  std::shared_ptr<Endpoint> endpoint(new Endpoint(io, reclaimer, std::move(config)));
  const EndpointConfig& c = endpoint->config_;
  const uint64_t bytes =
      2 * uint64_t{c.queues} *
      ((uint64_t{c.buffer_size} << c.log2_ring_size) + ring_bytes(c.log2_ring_size));
  if (bytes > UINT32_MAX - kPage) {
    return fail("memif {}: queues, ring-size and buffer-size make {} MiB: 4095 can be shared",
                c.name, bytes >> 20);
  }
  if (c.role == Role::server) {
    if (Result<> serving = endpoint->serve(); !serving) return tl::unexpected(serving.error());
  } else {
    endpoint->connect();
  }
  return endpoint;
}

Endpoint::Endpoint(asio::io_context& io, pipeline::Reclaimer& reclaimer, EndpointConfig config)
    : io_(io),
      reclaimer_(reclaimer),
      config_(std::move(config)),
      received_(config_.queues),
      sent_(config_.queues),
      timer_(io) {}

Endpoint::~Endpoint() {
  if (listener_) listener_->leave(config_.id);
  if (channel_) channel_->refuse("interface removed");
  delete link_.load();
}

// --- server ---

Result<> Endpoint::serve() {
  Result<std::shared_ptr<Listener>> listener = Listener::at(io_, config_.socket);
  if (!listener) return fail("memif {}: {}", config_.name, listener.error().message);
  const Result<> served = (*listener)->serve(
      config_.id, config_.queues,
      [weak = weak_from_this()](const std::shared_ptr<Channel>& channel, const Init& init) {
        if (const std::shared_ptr<Endpoint> self = weak.lock()) self->take(channel, init);
      });
  if (!served) return fail("memif {}: {}", config_.name, served.error().message);
  listener_ = std::move(*listener);
  return {};
}

void Endpoint::take(const std::shared_ptr<Channel>& channel, const Init& init) {
  if (!config_.secret.empty() && !same_secret(config_.secret, init)) {
    last_error_ = "a client gave a wrong secret";
    return channel->refuse("incorrect secret");
  }
  // A peer that was killed and is back already may be here before the news of its death.
  if (channel_ && channel_->is_over()) lose("the peer hung up");
  if (channel_) return channel->refuse("already connected");
  peer_ = std::string(get_text(init.name));
  attach(channel);
  to_server_.resize(config_.queues);
  to_client_.resize(config_.queues);
  schedule(kPatience);
  if (!channel->send(message_of(MessageType::ack))) lose("the peer does not read");
}

void Endpoint::from_client(const Message& message, FileDescriptor file) {
  Result<> done;
  if (is_up()) {
    done = fail("nothing is expected after CONNECT");
  } else if (message.type == MessageType::add_region) {
    done = add_region(message.add_region, file);
  } else if (message.type == MessageType::add_ring) {
    done = add_ring(message.add_ring);  // we poll: the eventfd is not for us
  } else if (message.type == MessageType::connect) {
    Result<std::unique_ptr<Link>> link = link_announced();
    if (!link) return refuse(link.error().message);
    peer_ += fmt::format(" {}", get_text(message.interface_name));
    publish(std::move(*link));
    Message answer = message_of(MessageType::connected);
    set_text(answer.interface_name, config_.name);
    if (!channel_->send(answer)) lose("the peer does not read");
    return;
  } else {
    done = fail("message {} is not expected", static_cast<unsigned>(message.type));
  }
  if (!done) return refuse(done.error().message);
  if (!channel_->send(message_of(MessageType::ack))) lose("the peer does not read");
}

Result<> Endpoint::add_region(const AddRegion& region, const FileDescriptor& file) {
  if (!file) return fail("region {} comes without a file", uint16_t{region.index});
  if (region.index != regions_.size() || regions_.size() == kMaxRegions) {
    return fail("region {} is not the next of at most {}", uint16_t{region.index}, kMaxRegions);
  }
  uint64_t left = config_.memory_limit;
  for (const Region& mapped : regions_) left -= mapped.size();
  Result<Region> mapped = Region::map(file, region.size, left, config_.trusts_memory);
  if (!mapped) return fail("region {}: {}", uint16_t{region.index}, mapped.error().message);
  regions_.push_back(std::move(*mapped));
  return {};
}

Result<> Endpoint::add_ring(const AddRing& ring) {
  auto& rings = (ring.flags & AddRing::kClientToServer) != 0 ? to_server_ : to_client_;
  if (ring.index >= rings.size()) {
    return fail("ring {}: the interface has {} queues", uint16_t{ring.index}, rings.size());
  }
  rings[ring.index] = {ring.region, ring.offset, ring.log2_ring_size};
  return {};
}

Result<RingPlace> Endpoint::place_of(const std::optional<Announced>& ring) const {
  if (!ring) return fail("the interface has {} queues; offer as many", config_.queues);
  if (ring->log2_size < kMinLog2RingSize || ring->log2_size > kMaxLog2RingSize) {
    return fail("a ring of 2^{} slots: 2^{} to 2^{} are possible", ring->log2_size,
                kMinLog2RingSize, kMaxLog2RingSize);
  }
  if (ring->region >= regions_.size() || ring->offset % alignof(RingHeader) != 0) {
    return fail("a ring in region {} at {}", ring->region, ring->offset);
  }
  uint8_t* memory = regions_[ring->region].at(ring->offset, ring_bytes(ring->log2_size));
  if (memory == nullptr) return fail("a ring beyond the end of region {}", ring->region);
  auto* header = reinterpret_cast<RingHeader*>(memory);
  if (header->cookie != kCookie) return fail("a ring without the cookie");
  return RingPlace{.header = header, .log2_size = ring->log2_size};
}

Result<std::unique_ptr<Link>> Endpoint::link_announced() {
  std::vector<std::pair<RingPlace, RingPlace>> places;
  for (uint16_t queue = 0; queue < config_.queues; ++queue) {
    const Result<RingPlace> in = place_of(to_server_[queue]);
    if (!in) return tl::unexpected(in.error());
    const Result<RingPlace> out = place_of(to_client_[queue]);
    if (!out) return tl::unexpected(out.error());
    places.emplace_back(*in, *out);
  }
  auto link = std::make_unique<Link>(std::move(regions_));
  regions_.clear();
  for (uint16_t queue = 0; queue < config_.queues; ++queue) {
    link->add(places[queue].first, /*sends=*/false, received_[queue]);
    link->add(places[queue].second, /*sends=*/true, sent_[queue]);
  }
  return link;
}

// --- client ---

void Endpoint::connect() {
  Result<FileDescriptor> socket = connect_to(config_.socket);
  if (!socket) {
    last_error_ = socket.error().message;
    return schedule(kRetry);
  }
  attach(Channel::make(io_, std::move(*socket)));
  schedule(kPatience);
}

Result<> Endpoint::lay_out(const Hello& hello) {
  if (hello.min_version > kVersion || hello.max_version < kVersion) {
    return fail("the server speaks version {:x} to {:x}", uint16_t{hello.min_version},
                uint16_t{hello.max_version});
  }
  const unsigned allowed = 1u + std::min(hello.max_c2s_ring, hello.max_s2c_ring);
  if (allowed < config_.queues) {
    return fail("the server allows {} queues, not {}", allowed, config_.queues);
  }
  const unsigned log2_size = std::min<unsigned>(hello.max_log2_ring_size, config_.log2_ring_size);
  if (log2_size < kMinLog2RingSize) return fail("the server allows rings of 2^{}", log2_size);

  const size_t rings = size_t{2} * config_.queues;
  const uint64_t buffers = (rings * ring_bytes(log2_size) + kPage - 1) & ~(kPage - 1);
  const uint64_t per_ring = uint64_t{config_.buffer_size} << log2_size;
  Result<std::pair<Region, FileDescriptor>> memory = Region::make(buffers + rings * per_ring);
  if (!memory) return tl::unexpected(memory.error());
  auto& [region, file] = *memory;

  Message init = message_of(MessageType::init);
  init.init.version = kVersion;
  init.init.id = config_.id;
  set_text(init.init.secret, config_.secret);
  set_text(init.init.name, "headrace");
  unsent_.emplace_back(init, FileDescriptor());
  Message add = message_of(MessageType::add_region);
  add.add_region = {.index = 0, .size = region.size()};
  unsent_.emplace_back(add, std::move(file));
  for (size_t i = 0; i < rings; ++i) {
    const uint64_t offset = i * ring_bytes(log2_size);
    const uint64_t data = buffers + i * per_ring;
    auto* header = new (region.at(offset, ring_bytes(log2_size))) RingHeader{};
    header->cookie = kCookie;
    laid_out_.push_back({.header = header,
                         .log2_size = log2_size,
                         .buffers = region.at(data, per_ring),
                         .buffers_offset = static_cast<uint32_t>(data),
                         .buffer_size = config_.buffer_size});
    Message ring = message_of(MessageType::add_ring);
    ring.add_ring = {.flags = i < config_.queues ? AddRing::kClientToServer : uint16_t{0},
                     .index = static_cast<uint16_t>(i % config_.queues),
                     .region = 0,
                     .offset = static_cast<uint32_t>(offset),
                     .log2_ring_size = static_cast<uint8_t>(log2_size),
                     .private_header_size = 0};
    // Servers want one, though both sides may poll.
    FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event) return fail("eventfd: {}", std::strerror(errno));
    unsent_.emplace_back(ring, std::move(event));
  }
  Message connect = message_of(MessageType::connect);
  set_text(connect.interface_name, config_.name);
  unsent_.emplace_back(connect, FileDescriptor());
  regions_.push_back(std::move(region));
  return {};
}

void Endpoint::send_next() {
  if (unsent_.empty()) return refuse("ACK is not expected");
  const auto [message, file] = std::move(unsent_.front());
  unsent_.pop_front();
  if (!channel_->send(message, file.get())) lose("the server does not read");
}

void Endpoint::from_server(const Message& message) {
  if (message.type == MessageType::hello && regions_.empty() && !is_up()) {
    if (Result<> laid = lay_out(message.hello); !laid) return refuse(laid.error().message);
    peer_ = std::string(get_text(message.hello.name));
    return send_next();
  }
  if (message.type == MessageType::ack && !regions_.empty()) return send_next();
  if (message.type == MessageType::connected && !regions_.empty() && unsent_.empty()) {
    peer_ += fmt::format(" {}", get_text(message.interface_name));
    return publish(link_laid_out());
  }
  refuse(fmt::format("message {} is not expected", static_cast<unsigned>(message.type)));
}

std::unique_ptr<Link> Endpoint::link_laid_out() {
  // Only now: servers begin by setting all indices to 0, and we end by laying out buffers.
  auto link = std::make_unique<Link>(std::move(regions_));
  regions_.clear();
  for (uint16_t queue = 0; queue < config_.queues; ++queue) {
    link->add(laid_out_[queue], /*sends=*/true, sent_[queue]);
    link->add(laid_out_[size_t{config_.queues} + queue], /*sends=*/false, received_[queue]);
  }
  return link;
}

// --- both ---

void Endpoint::attach(std::shared_ptr<Channel> channel) {
  channel_ = std::move(channel);
  const std::weak_ptr<Endpoint> weak = weak_from_this();
  channel_->listen(
      [weak](const Message& message, FileDescriptor file) {
        const std::shared_ptr<Endpoint> self = weak.lock();
        if (!self) return;
        if (self->config_.role == Role::server) return self->from_client(message, std::move(file));
        self->from_server(message);
      },
      [weak](const std::string& reason) {
        if (const std::shared_ptr<Endpoint> self = weak.lock()) self->lose(reason);
      });
}

void Endpoint::publish(std::unique_ptr<Link> link) {
  timer_.cancel();
  last_error_.clear();
  link_.store(link.release(), std::memory_order_release);
  log::info("memif {}: {} is connected", config_.name, peer_);
  if (config_.on_link_event) config_.on_link_event();
}

void Endpoint::refuse(const std::string& reason) {
  log::warn("memif {}: {}", config_.name, reason);
  if (channel_) channel_->refuse(reason);
  lose(reason);
}

void Endpoint::lose(const std::string& reason) {
  if (channel_) channel_->close();
  channel_.reset();
  regions_.clear();
  to_server_.clear();
  to_client_.clear();
  laid_out_.clear();
  unsent_.clear();
  last_error_ = reason;
  timer_.cancel();
  if (Link* link = link_.exchange(nullptr)) {
    log::info("memif {}: {} is lost: {}", config_.name, peer_, reason);
    // Workers may be in it until their round ends.
    reclaimer_.defer([link] { delete link; });
    if (config_.on_link_event) config_.on_link_event();
  }
  peer_.clear();
  if (config_.role == Role::client) schedule(kRetry);
}

void Endpoint::schedule(std::chrono::milliseconds delay) {
  timer_.expires_after(delay);
  timer_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
    const std::shared_ptr<Endpoint> self = weak.lock();
    if (!self || error || self->is_up()) return;
    if (self->channel_) return self->refuse("the handshake takes too long");
    if (self->config_.role == Role::client) self->connect();
  });
}

}  // namespace headrace::port::memif
