// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/load.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "vnf/functions/pairs.h"

namespace headrace::vnf {
namespace {

constexpr size_t kLine = 64;

uint64_t xorshift(uint64_t x) {
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  return x * 0x2545f4914f6cdd1dULL;
}

/// A random seed from the packet's first octets and its number. Without the number, the packets of
/// one flow would all touch the same memory. Never 0, which xorshift maps to itself.
uint64_t seed_of(rte_mbuf* packet, uint64_t number) {
  uint64_t seed = 0;
  std::memcpy(&seed, rte_pktmbuf_mtod(packet, void*),
              std::min<size_t>(sizeof seed, rte_pktmbuf_data_len(packet)));
  return (seed ^ number * 0x9e3779b97f4a7c15ULL) | 1;
}

/// Runs `Work` on each packet and forwards it. The result is stored in a member, so that the
/// compiler can't remove the work.
template <typename Work>
class Load final : public Function {
 public:
  Load(std::vector<uint16_t> out, Work work) : out_(std::move(out)), work_(std::move(work)) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t /*now*/,
               Output& output) noexcept override {
    for (rte_mbuf* packet : packets) result_ += work_(seed_of(packet, number_++));
    if (out_[port] == kUnpaired) {
      output.drop(packets, DropReason::no_route);
    } else {
      output.send(out_[port], packets);
    }
    work_done_.add(packets.size());
    shown_result_.store(result_, std::memory_order_relaxed);
  }

  [[nodiscard]] nlohmann::json counters() const override {
    return {{"packets_worked_on", work_done_.read()},
            {"result", shown_result_.load(std::memory_order_relaxed)}};
  }

 private:
  std::vector<uint16_t> out_;
  Work work_;
  uint64_t number_{0};
  uint64_t result_{0};
  std::atomic<uint64_t> shown_result_{0};
  Counter work_done_;
};

struct CpuWork {
  uint64_t units;
  uint64_t operator()(uint64_t x) noexcept {
    for (uint64_t i = 0; i < units; ++i) x = xorshift(x);
    return x;
  }
};

struct MemoryWork {
  std::vector<uint64_t> table;  ///< the number of cache lines is a power of two
  uint64_t lines_per_packet;
  bool write;
  uint64_t operator()(uint64_t x) noexcept {
    const uint64_t mask = table.size() / (kLine / sizeof(uint64_t)) - 1;
    for (uint64_t i = 0; i < lines_per_packet; ++i) {
      x = xorshift(x);
      uint64_t& word = table[(x >> 32 & mask) * (kLine / sizeof(uint64_t))];
      x += word;
      if (write) word = x;
    }
    return x;
  }
};

}  // namespace

std::unique_ptr<Function> make_cpu(ConfigReader& config, const FunctionContext& context) {
  auto out = read_pairs(config, context);
  const uint64_t units = config.integer("units", 0, 100'000'000, 10);
  return std::make_unique<Load<CpuWork>>(std::move(out), CpuWork{units});
}

std::unique_ptr<Function> make_memory(ConfigReader& config, const FunctionContext& context) {
  auto out = read_pairs(config, context);
  const uint64_t bytes = config.integer("bytes", 0, 1 << 20, kLine);
  const uint64_t working_set = config.integer("working_set", kLine, uint64_t{1} << 34, 1 << 20);
  const bool write = config.boolean("write", false);
  if (!std::has_single_bit(working_set)) {
    config.add_error("working_set", "not a power of two");
  }
  if (context.pool == nullptr || config.failed()) return nullptr;
  // Initialized to 1, not 0: otherwise all pages could be the kernel's shared zero page.
  MemoryWork work{.table = std::vector<uint64_t>(working_set / sizeof(uint64_t), 1),
                  .lines_per_packet = (bytes + kLine - 1) / kLine,
                  .write = write};
  return std::make_unique<Load<MemoryWork>>(std::move(out), std::move(work));
}

}  // namespace headrace::vnf
