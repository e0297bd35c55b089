// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: arbitrary frames as input of every function that parses packets.
//
// The first octet selects the function. Then each frame is an octet (its lowest bit is the port,
// the next bit ends the burst, the rest advances the clock), two octets of length and its data.
// Every packet must be sent, be dropped or be held where the function holds packets, and sent
// packets must be well-formed. Functions keep their state from input to input, as under traffic: a
// fault may depend on earlier packets.
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "eal/eal.h"
#include "eal/mempool.h"
#include "vnf/function.h"
#include "vnf/output.h"
#include "vnf/registry.h"

namespace headrace::vnf {
namespace {

constexpr uint64_t kTscHz = 1'000'000;
constexpr uint32_t kBuffers = 2047;
/// Packets that a function may hold: in queues, or waiting for a neighbor.
constexpr unsigned kMaxKept = 1024;

struct Subject {
  const char* name;
  const char* configuration;
};

constexpr const char* kCpe = R"({"inside": "0", "outside": "1",
  "firewall": {"rules": [{"action": "allow", "from": "inside"}], "max_sessions": 64},
  "dpi": {"max_flows": 64, "max_detecting": 16},
  "nat": {"public": ["203.0.113.1"], "max_mappings": 64},
  "qos": {"rate_bps": 1000000000, "queue_packets": 64, "classes": [{"name": "all", "weight": 1}]}})";

constexpr std::array kSubjects = {
    Subject{"pass", R"({"mac": "swap"})"},
    Subject{"bridge", R"({"capacity": 64})"},
    Subject{"router", R"({"interfaces": [{"port": "0", "address": "10.0.0.1/24"},
        {"port": "1", "address": "10.0.1.1/24"}, {"port": "0", "address": "2001:db8:a::1/64"},
        {"port": "1", "address": "2001:db8:b::1/64"}],
        "routes": [{"prefix": "20.0.0.0/8", "via": "10.0.1.2"},
                   {"prefix": "2001:db8:100::/48", "via": "2001:db8:b::2"}],
        "neighbors": [{"address": "10.0.1.2", "mac": "02:00:00:00:00:12"}],
        "neighbor_capacity": 64})"},
    Subject{"nat", R"({"inside": "0", "outside": "1", "public": ["203.0.113.1"],
        "ports": [1024, 1055], "max_mappings": 64})"},
    Subject{"firewall", R"({"rules": [{"action": "allow", "from": "0", "proto": "tcp"},
        {"action": "allow", "from": "0", "proto": "udp", "dst_port": "1-1024"},
        {"action": "allow", "proto": "icmp"}], "max_sessions": 64})"},
    Subject{"qos", R"({"rate_bps": 1000000000, "queue_packets": 64,
        "classes": [{"name": "a", "dscp": [46], "priority": 0}, {"name": "b", "weight": 1,
        "meter": {"cir_bps": 1000000, "cbs": 2000, "pir_bps": 2000000, "pbs": 4000,
        "yellow": 10}}]})"},
    Subject{"dpi", R"({"rules": [{"protocol": "DNS", "action": "drop"},
        {"protocol": "HTTP", "action": "mark", "dscp": 8}], "max_flows": 64,
        "max_detecting": 16})"},
    Subject{"cpe", kCpe},
    Subject{"bng", R"({"access": "0", "core": "1", "core_address": "192.0.2.1",
        "tunnel_remote": "192.0.2.2", "core_next_hop_mac": "02:00:00:00:00:99",
        "subscribers": [{"s_vid": 100, "c_vid": 1, "count": 16, "address": "100.64.1.0"}]})"},
    Subject{"basestation", R"({"radio": "0", "core": "1", "core_address": "192.0.2.1",
        "security_gateway": "192.0.2.2", "core_next_hop_mac": "02:00:00:00:00:99",
        "gtpu_address": "10.255.0.1", "serving_gateway": "10.255.0.2",
        "uplink": {"spi": 256, "suite": "aes-gcm", "key": "00000000000000000000000000000000",
                   "salt": "00000000"},
        "downlink": {"spi": 257, "suite": "aes-gcm", "key": "00000000000000000000000000000000",
                     "salt": "00000000"},
        "users": [{"address": "100.64.0.1", "count": 16, "uplink_teid": 1,
                   "downlink_teid": 1}]})"},
    Subject{"memory", R"({"bytes": 64, "working_set": 4096})"},
};

[[noreturn]] void die(const char* what, const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", what, why.c_str());
  std::abort();
}

/// Checks the packets that are sent, and frees them.
class CheckingOutput final : public Output {
 public:
  CheckingOutput() : Output(2) {}

 private:
  uint16_t transmit(uint16_t /*port*/, std::span<rte_mbuf*> packets) noexcept override {
    for (rte_mbuf* packet : packets) {
      uint32_t length = 0;
      for (const rte_mbuf* part = packet; part != nullptr; part = part->next) {
        length += part->data_len;
        if (part->data_off + part->data_len > part->buf_len) std::abort();
      }
      if (length != packet->pkt_len || length == 0) std::abort();
      rte_pktmbuf_free(packet);
    }
    return static_cast<uint16_t>(packets.size());
  }
};

class Bench {
 public:
  Bench() {
    auto eal = eal::Eal::init({.memory_mb = 384, .allow_hugepages = false, .log_level = "error"});
    if (!eal) die("EAL", eal.error().message);
    eal_ = std::move(*eal);
    auto pool = eal::make_mempool({.name = "fuzz", .buffers = kBuffers, .cache = 0});
    if (!pool) die("pool", pool.error().message);
    pool_ = std::move(*pool);
  }

  void run(const uint8_t* data, size_t size) {
    Function& function = subject(data[0] % kSubjects.size());
    size_t at = 1;
    std::vector<rte_mbuf*> burst;
    while (at + 3 <= size) {
      const uint8_t how = data[at];
      const size_t length =
          std::min<size_t>((data[at + 1] << 8 | data[at + 2]) % 2048, size - at - 3);
      at += 3;
      if (rte_mbuf* packet = length == 0 ? nullptr : rte_pktmbuf_alloc(pool_.get())) {
        std::memcpy(rte_pktmbuf_append(packet, static_cast<uint16_t>(length)), data + at, length);
        burst.push_back(packet);
      }
      at += length;
      if ((how & 2) != 0 || burst.size() == 32 || at + 3 > size) {
        now_ += uint64_t{how} * how * 50;  // up to three seconds
        if (!burst.empty()) function.process(how & 1, burst, now_, output_);
        burst.clear();
        function.tick(now_, output_);
        output_.flush_all();
      }
    }
    (void)function.counters().dump();
    const unsigned kept = rte_mempool_in_use_count(pool_.get());
    if (kept > kMaxKept) die(kSubjects[data[0] % kSubjects.size()].name, "leaks buffers");
  }

 private:
  Function& subject(size_t number) {
    auto& made = functions_[number];
    if (made) return *made;
    const Json json = Json::parse(kSubjects[number].configuration);
    ConfigErrors errors;
    ConfigReader reader(json, kSubjects[number].name, errors);
    FunctionContext context{.pool = pool_.get(), .tsc_hz = kTscHz};
    for (uint8_t i = 0; i < 2; ++i) {
      context.ports.push_back({.name = std::to_string(i), .mac = {2, 0, 0, 0, 0, i}});
    }
    made = find_function(kSubjects[number].name)->make(reader, context);
    reader.finish();
    if (!errors.empty()) die("configuration", errors.front());
    return *made;
  }

  std::unique_ptr<eal::Eal> eal_;
  eal::Mempool pool_;
  CheckingOutput output_;
  std::array<std::unique_ptr<Function>, kSubjects.size()> functions_;
  uint64_t now_{kTscHz};
};

}  // namespace
}  // namespace headrace::vnf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // Never destroyed: EAL can't be initialized a second time.
  static auto* const bench = new headrace::vnf::Bench();
  bench->run(data, size);
  return 0;
}
