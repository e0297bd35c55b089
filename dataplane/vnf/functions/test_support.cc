// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/test_support.h"

#include <algorithm>
#include <cstring>

#include "eal/eal.h"

namespace headrace::vnf {
namespace {

/// EAL can be initialized once per process; it is cleaned up after the last test.
class EalEnvironment final : public ::testing::Environment {
 public:
  void SetUp() override {
    auto eal = eal::Eal::init({.memory_mb = 192, .allow_hugepages = false, .log_level = "warning"});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = *std::move(eal);
  }
  void TearDown() override { eal_.reset(); }

 private:
  std::unique_ptr<eal::Eal> eal_;
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new EalEnvironment);

FunctionContext context_of(size_t ports, rte_mempool* pool, uint64_t tsc_hz) {
  FunctionContext context{.ports = {}, .pool = pool, .tsc_hz = tsc_hz};
  for (uint16_t i = 0; i < ports; ++i) {
    context.ports.push_back({.name = std::to_string(i), .mac = port_mac(i)});
  }
  return context;
}

}  // namespace

MacAddress port_mac(uint16_t index) {
  return {2, 0, 0, 0, static_cast<uint8_t>(index >> 8), static_cast<uint8_t>(index)};
}

uint16_t CapturingOutput::transmit(uint16_t port, std::span<rte_mbuf*> packets) noexcept {
  if (full) return 0;
  for (rte_mbuf* packet : packets) {
    Bytes bytes(rte_pktmbuf_pkt_len(packet));
    const void* data = rte_pktmbuf_read(packet, 0, packet->pkt_len, bytes.data());
    if (data != bytes.data()) std::memcpy(bytes.data(), data, bytes.size());
    sent.push_back({port, std::move(bytes)});
    rte_pktmbuf_free(packet);
  }
  return static_cast<uint16_t>(packets.size());
}

FunctionTest::FunctionTest() {
  auto pool = eal::make_mempool({.name = "test", .buffers = 4095, .cache = 0});
  if (pool) pool_ = *std::move(pool);
}

FunctionTest::~FunctionTest() {
  function_.reset();
  EXPECT_EQ(buffers_in_use(), 0U) << "the function leaked packets";
}

unsigned FunctionTest::buffers_in_use() const {
  return rte_mempool_in_use_count(pool_.get());
}

void FunctionTest::make(const char* name, const char* config, size_t ports) {
  ASSERT_NE(pool_, nullptr);
  const auto* entry = find_function(name);
  ASSERT_NE(entry, nullptr) << name;
  const Json json = Json::parse(config);
  ConfigErrors errors;
  ConfigReader reader(json, "function", errors);
  auto made = entry->make(reader, context_of(ports, pool_.get(), kTscHz));
  reader.finish();
  ASSERT_EQ(errors, ConfigErrors{});
  if (function_) made->migrate_state(*function_);
  function_ = std::move(made);
  if (!output_) output_ = std::make_unique<CapturingOutput>(ports);
}

ConfigErrors FunctionTest::config_errors(const char* name, const char* config, size_t ports) {
  const Json json = Json::parse(config);
  ConfigErrors errors;
  ConfigReader reader(json, "function", errors);
  find_function(name)->make(reader, context_of(ports, nullptr, kTscHz));
  reader.finish();
  return errors;
}

rte_mbuf* FunctionTest::to_mbuf(const Bytes& bytes) {
  rte_mbuf* packet = rte_pktmbuf_alloc(pool_.get());
  std::copy(bytes.begin(), bytes.end(),
            rte_pktmbuf_append(packet, static_cast<uint16_t>(bytes.size())));
  return packet;
}

std::vector<SentPacket> FunctionTest::process(uint16_t port, const std::vector<Bytes>& frames) {
  std::vector<rte_mbuf*> packets;
  for (const Bytes& frame : frames) packets.push_back(to_mbuf(frame));
  function_->process(port, packets, now_, *output_);
  return tick();
}

std::vector<SentPacket> FunctionTest::tick() {
  function_->tick(now_, *output_);
  output_->flush_all();
  return std::exchange(output_->sent, {});
}

}  // namespace headrace::vnf
