// SPDX-License-Identifier: Apache-2.0
// The memif end-point against itself and against DPDK's net_memif, and against peers that lie.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "eal/eal.h"
#include "eal/ethdev.h"
#include "eal/mempool.h"
#include "pipeline/terms/port_io.h"
#include "pipeline/terms/reclaimer.h"
#include "port/memif/endpoint.h"

namespace headrace::port::memif {
namespace {

using pipeline::kBurst;
using namespace std::chrono_literals;

std::string unique(const std::string& name) {
  return name + std::to_string(::getpid());
}

std::string socket_path(const std::string& name) {
  return ::testing::TempDir() + unique("memif-" + name + "-");
}

/// Defers until the test says so.
class Later final : public pipeline::Reclaimer {
 public:
  void defer(std::function<void()> function) override { waiting.push_back(std::move(function)); }
  void run() {
    for (const auto& function : std::exchange(waiting, {})) function();
  }
  std::vector<std::function<void()>> waiting;
};

class MemifTest : public ::testing::Test {
 protected:
  static constexpr unsigned kBuffers = 8191;

  static void SetUpTestSuite() {
    auto eal = eal::Eal::init({.file_prefix = unique("headrace-memif-test-"),
                               .memory_mb = 256,
                               .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool(
        {.name = "memif-test", .buffers = kBuffers, .cache = 0, .data_size = 10000});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
  }
  static void TearDownTestSuite() {
    pool_.reset();
    eal_.reset();
  }
  void TearDown() override {
    reclaimer.run();
    EXPECT_EQ(rte_mempool_avail_count(pool_.get()), kBuffers) << "buffers leaked";
  }

  std::shared_ptr<Endpoint> open(EndpointConfig config) {
    auto endpoint = Endpoint::open(io, reclaimer, std::move(config));
    EXPECT_TRUE(endpoint) << endpoint.error().message;
    return endpoint ? *endpoint : nullptr;
  }

  bool run_until(const std::function<bool()>& done, std::chrono::milliseconds patience = 10s) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!done() && std::chrono::steady_clock::now() < end) {
      io.restart();
      io.run_for(5ms);
    }
    return done();
  }

  static rte_mbuf* frame(uint32_t length, uint32_t seed) {
    rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
    char* data = rte_pktmbuf_append(packet, static_cast<uint16_t>(length));
    for (uint32_t i = 0; i < length; ++i) data[i] = static_cast<char>(seed + i * 7);
    return packet;
  }
  static bool is_frame(const rte_mbuf* packet, uint32_t length, uint32_t seed) {
    if (packet->pkt_len != length) return false;
    uint32_t at = 0;
    for (const rte_mbuf* segment = packet; segment != nullptr; segment = segment->next) {
      const char* data = rte_pktmbuf_mtod(segment, const char*);
      for (uint32_t i = 0; i < segment->data_len; ++i, ++at) {
        if (data[i] != static_cast<char>(seed + at * 7)) return false;
      }
    }
    return at == length;
  }

  using Send = std::function<uint16_t(std::span<rte_mbuf*>)>;
  using Receive = std::function<uint16_t(std::span<rte_mbuf*>)>;

  /// Sends `count` frames of `length` and checks that they arrive whole and in order.
  static void pass(const Send& send, const Receive& receive, uint32_t count, uint32_t length) {
    uint32_t sent = 0;
    uint32_t seen = 0;
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (seen < count && std::chrono::steady_clock::now() < end) {
      std::array<rte_mbuf*, kBurst> burst;
      const uint32_t batch = std::min<uint32_t>(count - sent, 1 + sent % kBurst);
      for (uint32_t i = 0; i < batch; ++i) burst[i] = frame(length, sent + i);
      const uint16_t taken = batch == 0 ? 0 : send({burst.data(), batch});
      rte_pktmbuf_free_bulk(burst.data() + taken, batch - taken);
      sent += taken;
      const uint16_t received = receive(burst);
      for (uint16_t i = 0; i < received; ++i) {
        EXPECT_TRUE(is_frame(burst[i], length, seen)) << "frame " << seen << " of " << length;
        rte_pktmbuf_free(burst[i]);
        ++seen;
      }
    }
    EXPECT_EQ(seen, count);
  }
  static Send by(const std::shared_ptr<Endpoint>& endpoint, uint16_t queue = 0) {
    return [=](std::span<rte_mbuf*> packets) { return endpoint->send(queue, packets); };
  }
  static Receive at(const std::shared_ptr<Endpoint>& endpoint, uint16_t queue = 0) {
    return [=](std::span<rte_mbuf*> packets) {
      return endpoint->receive(queue, pool_.get(), packets);
    };
  }

  asio::io_context io{1};
  Later reclaimer;
  static inline std::unique_ptr<eal::Eal> eal_;
  static inline eal::Mempool pool_;
};

TEST_F(MemifTest, CarriesFramesOfAllSizesBothWays) {
  const std::string path = socket_path("sizes");
  const auto server = open({.name = "s", .socket = path, .secret = "sesame"});
  const auto client = open({.name = "c", .socket = path, .role = Role::client, .secret = "sesame"});
  ASSERT_TRUE(run_until([&] { return server->is_up() && client->is_up(); }));
  EXPECT_EQ(server->peer(), "headrace c");
  for (const uint32_t length : {1u, 60u, 64u, 65u, 256u, 257u, 1514u, 2048u, 2049u, 9018u}) {
    pass(by(client), at(server), 300, length);
    pass(by(server), at(client), 300, length);
  }
  EXPECT_EQ(server->receive_counts(0).packets.read(), 3000u);
  EXPECT_EQ(client->send_counts(0).packets.read(), 3000u);
}

TEST_F(MemifTest, FullRingsRefuseAndLoseNothing) {
  const std::string path = socket_path("full");
  const auto server = open({.name = "s", .socket = path});
  const auto client = open(
      {.name = "c", .socket = path, .role = Role::client, .log2_ring_size = 6, .buffer_size = 128});
  ASSERT_TRUE(run_until([&] { return server->is_up() && client->is_up(); }));
  for (const auto& [from, to] : {std::pair(client, server), std::pair(server, client)}) {
    uint32_t sent = 0;
    for (;; ++sent) {
      rte_mbuf* packet = frame(60, sent);
      if (from->send(0, {&packet, 1}) == 1) continue;
      rte_pktmbuf_free(packet);
      break;
    }
    EXPECT_EQ(sent, 64u);
    // Two slots are free: a frame of three does not fit, nor does half of it go.
    std::array<rte_mbuf*, kBurst> burst;
    ASSERT_EQ(to->receive(0, pool_.get(), std::span(burst).first(2)), 2);
    rte_pktmbuf_free_bulk(burst.data(), 2);
    rte_mbuf* large = frame(300, 0);
    EXPECT_EQ(from->send(0, {&large, 1}), 0);
    rte_pktmbuf_free(large);
    uint32_t seen = 2;
    while (const uint16_t count = to->receive(0, pool_.get(), burst)) {
      for (uint16_t i = 0; i < count; ++i) EXPECT_TRUE(is_frame(burst[i], 60, seen++));
      rte_pktmbuf_free_bulk(burst.data(), count);
    }
    EXPECT_EQ(seen, 64u);
  }
}

TEST_F(MemifTest, QueuesAreApart) {
  const std::string path = socket_path("queues");
  const auto server = open({.name = "s", .socket = path, .queues = 3});
  const auto client = open({.name = "c", .socket = path, .role = Role::client, .queues = 3});
  ASSERT_TRUE(run_until([&] { return server->is_up() && client->is_up(); }));
  for (uint16_t queue = 0; queue < 3; ++queue) {
    pass(by(client, queue), at(server, queue), 200u + queue, 100);
    pass(by(server, queue), at(client, queue), 200u + queue, 100);
    EXPECT_EQ(server->receive_counts(queue).packets.read(), 200u + queue);
  }
}

TEST_F(MemifTest, RefusesWithAReason) {
  const std::string path = socket_path("refuse");
  const auto server = open({.name = "s", .socket = path, .id = 1, .secret = "right", .queues = 2});
  const auto reason_for = [&](EndpointConfig config) {
    config.name = "c";
    config.socket = path;
    config.role = Role::client;
    const auto client = open(std::move(config));
    run_until([&] { return !client->last_error().empty(); }, 2s);
    return client->last_error();
  };
  EXPECT_NE(reason_for({.id = 2}).find("ID not found"), std::string::npos);
  EXPECT_NE(reason_for({.id = 1, .secret = "wrong"}).find("secret"), std::string::npos);
  EXPECT_NE(reason_for({.id = 1, .secret = "right"}).find("2 queues"), std::string::npos);
  EXPECT_NE(reason_for({.id = 1, .secret = "right", .queues = 3}).find("allows 2"),
            std::string::npos);
  EXPECT_FALSE(server->is_up());
  EXPECT_NE(Endpoint::open(io, reclaimer, {.name = "t", .socket = path, .id = 1})
                .error()
                .message.find("id 1 is taken"),
            std::string::npos);
}

TEST_F(MemifTest, EitherSideMayBeMadeAnew) {
  const std::string path = socket_path("anew");
  auto client = open({.name = "c", .socket = path, .role = Role::client});
  auto server = open({.name = "s", .socket = path});
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(run_until([&] { return server->is_up() && client->is_up(); })) << round;
    pass(by(client), at(server), 100, 60);
    pass(by(server), at(client), 100, 60);
    auto& gone = round % 2 == 0 ? server : client;
    auto& stays = round % 2 == 0 ? client : server;
    const EndpointConfig config = gone->config();
    gone.reset();
    ASSERT_TRUE(run_until([&] { return !stays->is_up(); }));
    EXPECT_EQ(reclaimer.waiting.size(), 1u) << "a link lives until no worker is in it";
    reclaimer.run();
    gone = open(config);
  }
}

/// DPDK's driver as the peer.
class NetMemif {
 public:
  NetMemif(const std::string& name, const std::string& path, bool server, rte_mempool* pool,
           uint16_t queues = 1) {
    const std::string args = fmt::format("{},role={},socket={},socket-abstract=no", name,
                                         server ? "server" : "client", path);
    auto made = eal::Ethdev::probe(args);
    EXPECT_TRUE(made) << made.error().message;
    device = std::move(*made);
    EXPECT_TRUE(device->configure({.rx_queues = queues, .tx_queues = queues}));
    EXPECT_TRUE(device->set_up_queues(pool));
    EXPECT_TRUE(device->start());
  }
  NetMemif(const NetMemif&) = delete;
  NetMemif& operator=(const NetMemif&) = delete;

  [[nodiscard]] bool is_up() const { return device->link().up; }
  [[nodiscard]] auto send(uint16_t queue = 0) const {
    return [id = device->id(), queue](std::span<rte_mbuf*> packets) {
      return rte_eth_tx_burst(id, queue, packets.data(), static_cast<uint16_t>(packets.size()));
    };
  }
  [[nodiscard]] auto receive(uint16_t queue = 0) const {
    return [id = device->id(), queue](std::span<rte_mbuf*> packets) {
      return rte_eth_rx_burst(id, queue, packets.data(), static_cast<uint16_t>(packets.size()));
    };
  }

  std::unique_ptr<eal::Ethdev> device;
};

TEST_F(MemifTest, ServesDpdksClients) {
  const std::string path = socket_path("dpdk-client");
  const auto server = open({.name = "s", .socket = path, .queues = 2});
  {
    const NetMemif client("net_memif_client", path, false, pool_.get(), 2);
    ASSERT_TRUE(run_until([&] { return server->is_up() && client.is_up(); }));
    for (uint16_t queue = 0; queue < 2; ++queue) {
      for (const uint32_t length : {60u, 1514u, 9018u}) {
        pass(client.send(queue), at(server, queue), 2000, length);
        pass(by(server, queue), client.receive(queue), 2000, length);
      }
    }
  }
  EXPECT_TRUE(run_until([&] { return !server->is_up(); }));
}

TEST_F(MemifTest, ConnectsToDpdksServers) {
  const std::string path = socket_path("dpdk-server");
  const auto client = open({.name = "c", .socket = path, .role = Role::client});
  for (int round = 0; round < 2; ++round) {
    {
      const NetMemif server("net_memif_server", path, true, pool_.get());
      ASSERT_TRUE(run_until([&] { return client->is_up() && server.is_up(); }));
      for (const uint32_t length : {60u, 1514u, 9018u}) {
        pass(server.send(), at(client), 2000, length);
        pass(by(client), server.receive(), 2000, length);
      }
    }
    EXPECT_TRUE(run_until([&] { return !client->is_up(); })) << "and again";
  }
}

// --- peers that lie ---

/// A peer made by hand: a channel that says what the test wants.
class Liar {
 public:
  Liar(asio::io_context& io, const std::string& path) {
    channel = Channel::make(io, std::move(*connect_to(path)));
    channel->listen([this](const Message& message, FileDescriptor) { replies.push_back(message); },
                    [this](const std::string& why) { reason = why; });
  }
  void init() {
    Message message{};
    message.type = MessageType::init;
    message.init.version = kVersion;
    channel->send(message);
  }
  void region(uint16_t index, uint64_t size, int file) {
    Message message{};
    message.type = MessageType::add_region;
    message.add_region = {.index = index, .size = size};
    channel->send(message, file);
  }
  void ring(bool to_server, uint16_t index, uint16_t region, uint32_t offset, uint8_t log2_size) {
    Message message{};
    message.type = MessageType::add_ring;
    message.add_ring = {.flags = to_server ? uint16_t{1} : uint16_t{0},
                        .index = index,
                        .region = region,
                        .offset = offset,
                        .log2_ring_size = log2_size,
                        .private_header_size = 0};
    channel->send(message);
  }
  void connect() {
    Message message{};
    message.type = MessageType::connect;
    channel->send(message);
  }
  std::shared_ptr<Channel> channel;
  std::vector<Message> replies;
  std::string reason;
};

TEST_F(MemifTest, RefusesMemoryAndRingsThatAreNotThere) {
  const std::string path = socket_path("liars");
  const auto server = open({.name = "s", .socket = path});
  auto memory = Region::make(1 << 20);
  ASSERT_TRUE(memory);
  auto& [region, file] = *memory;
  new (region.at(0, 128)) RingHeader{.cookie = kCookie};
  new (region.at(4096, 128)) RingHeader{.cookie = kCookie};
  const FileDescriptor unsealed(::memfd_create("unsealed", 0));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);

  const auto reason_for = [&](const std::function<void(Liar&)>& lie) {
    Liar liar(io, path);
    liar.init();
    lie(liar);
    run_until([&] { return !liar.reason.empty(); }, 5s);
    EXPECT_FALSE(server->is_up());
    return liar.reason;
  };
  const int fd = file.get();
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(reason_for([](Liar& l) { l.region(0, 4096, -1); }), "without a file");
  contains(reason_for([&](Liar& l) { l.region(1, 4096, fd); }), "not the next");
  contains(reason_for([&](Liar& l) { l.region(0, 2 << 20, fd); }), "bytes of");
  contains(reason_for([&](Liar& l) { l.region(0, 4096, unsealed.get()); }), "seal");
  contains(reason_for([](Liar& l) { l.ring(true, 7, 0, 0, 10); }), "1 queues");
  // A file of a tebibyte costs its owner nothing, and whoever writes to it all that there is.
  const FileDescriptor sparse(::memfd_create("sparse", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sparse.get(), off_t{1} << 40), 0);
  ASSERT_EQ(::fcntl(sparse.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  contains(reason_for([&](Liar& l) { l.region(0, 1ULL << 40, sparse.get()); }), "memory-limit");
  contains(reason_for([&](Liar& l) {
             l.region(0, 1 << 20, fd);
             l.region(1, 1 << 20, fd);
             l.region(2, (1ULL << 30) - (2 << 20) + 1, sparse.get());
           }),
           "1 more than options:memory-limit");
  struct stat found {};
  ASSERT_EQ(::fstat(sparse.get(), &found), 0);
  EXPECT_EQ(found.st_blocks, 0) << "the switch has allocated memory for what it refused";
  contains(reason_for([](Liar& l) { l.connect(); }), "offer as many");
  const auto rings = [&](uint16_t where, uint32_t offset, uint8_t log2_size) {
    return reason_for([&](Liar& l) {
      l.region(0, 1 << 20, fd);
      l.ring(true, 0, where, offset, log2_size);
      l.ring(false, 0, 0, 4096, 4);
      l.connect();
    });
  };
  contains(rings(1, 0, 4), "region 1");
  contains(rings(0, 17, 4), "at 17");
  contains(rings(0, 0, 15), "2^15");
  contains(rings(0, 0, 0), "2^0");
  contains(rings(0, (1 << 20) - 128, 4), "beyond the end");
  contains(rings(0, 64 << 10, 4), "cookie");
}

TEST_F(MemifTest, MemoryIsAllocatedBeforeItIsUsed) {
  constexpr uint64_t kSize = 1 << 20;
  const FileDescriptor sparse(::memfd_create("sparse", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sparse.get(), kSize), 0);
  ASSERT_EQ(::fcntl(sparse.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const auto theirs = Region::map(sparse, kSize, kSize, false);
  ASSERT_TRUE(theirs) << theirs.error().message;
  const auto ours = Region::make(kSize);
  ASSERT_TRUE(ours) << ours.error().message;
  for (const int file : {sparse.get(), ours->second.get()}) {
    struct stat found {};
    ASSERT_EQ(::fstat(file, &found), 0);
    EXPECT_EQ(static_cast<uint64_t>(found.st_blocks) * 512, kSize);
  }
}

TEST_F(MemifTest, ReadsNothingBeyondTheMemoryHoweverTheRingIsScribbledOn) {
  const std::string path = socket_path("scribble");
  const auto server = open({.name = "s", .socket = path});
  constexpr uint64_t kSize = 256 << 10;
  constexpr uint8_t kLog2 = 6;
  auto memory = Region::make(kSize);
  ASSERT_TRUE(memory);
  auto& [region, file] = *memory;
  auto* in = new (region.at(0, 128)) RingHeader{.cookie = kCookie};
  auto* out = new (region.at(8192, 128)) RingHeader{.cookie = kCookie};
  Liar liar(io, path);
  liar.init();
  liar.region(0, kSize, file.get());
  liar.ring(true, 0, 0, 0, kLog2);
  liar.ring(false, 0, 0, 8192, kLog2);
  liar.connect();
  ASSERT_TRUE(run_until([&] { return server->is_up(); }));

  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    for (RingHeader* ring : {in, out}) {
      auto* descriptors = reinterpret_cast<Descriptor*>(ring + 1);
      Descriptor& one = descriptors[random() % (1 << kLog2)];
      one.flags = static_cast<uint16_t>(random() % 2);
      one.region = static_cast<uint16_t>(random() % 16 == 0 ? random() : 0);
      one.offset = random() % 4 == 0 ? static_cast<uint32_t>(random())
                                     : static_cast<uint32_t>(random() % kSize);
      one.length = random() % 4 == 0 ? static_cast<uint32_t>(random())
                                     : static_cast<uint32_t>(random() % 4096);
      ring->head = static_cast<uint16_t>(random() % 8 == 0 ? random() : ring->tail + random() % 65);
      if (random() % 8 == 0) ring->tail = static_cast<uint16_t>(random());
    }
    std::array<rte_mbuf*, kBurst> burst;
    const uint16_t count = server->receive(0, pool_.get(), burst);
    rte_pktmbuf_free_bulk(burst.data(), count);
    for (rte_mbuf*& packet : burst) packet = frame(1 + random() % 3000, 0);
    const uint16_t sent = server->send(0, burst);
    rte_pktmbuf_free_bulk(burst.data() + sent, kBurst - sent);
  }
  EXPECT_GT(server->receive_counts(0).bad_buffer.read(), 0u);
  EXPECT_GT(server->receive_counts(0).bad_index.read(), 0u);
}

}  // namespace
}  // namespace headrace::port::memif
