// SPDX-License-Identifier: Apache-2.0
// For tests of functions: DPDK without devices, packets from bytes, and an output that records the
// packets sent.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eal/mempool.h"
#include "vnf/function.h"
#include "vnf/net/packet_builder.h"
#include "vnf/output.h"
#include "vnf/registry.h"

namespace headrace::vnf {

/// A frame and its output port.
struct SentPacket {
  uint16_t port;
  Bytes bytes;
  bool operator==(const SentPacket&) const = default;
};

/// Keeps copies of what is flushed; refuses everything while `full` is set.
class CapturingOutput final : public Output {
 public:
  using Output::Output;
  std::vector<SentPacket> sent;
  bool full{false};

 private:
  uint16_t transmit(uint16_t port, std::span<rte_mbuf*> packets) noexcept override;
};

/// A function of the registry, made from a configuration in JSON, with ports "0", "1", ... whose
/// MAC addresses are 02:00:00:00:00:00, 02:00:00:00:00:01, ...
class FunctionTest : public ::testing::Test {
 protected:
  FunctionTest();
  ~FunctionTest() override;

  /// Makes the function under test. The configuration must be valid.
  void make(const char* name, const char* config, size_t ports = 2);
  /// The errors of a configuration.
  static ConfigErrors config_errors(const char* name, const char* config, size_t ports = 2);

  /// Processes frames received on a port at `now` and returns the packets sent by that and by
  /// tick().
  std::vector<SentPacket> process(uint16_t port, const std::vector<Bytes>& frames);
  /// Runs tick() alone.
  std::vector<SentPacket> tick();
  [[nodiscard]] uint64_t drops(DropReason reason) const { return output_->drops(reason); }
  [[nodiscard]] Json counters() const { return function_->counters(); }
  /// Buffers that are neither free nor held by the capturing output.
  [[nodiscard]] unsigned buffers_in_use() const;

  /// A buffer of the test's pool with these octets.
  rte_mbuf* to_mbuf(const Bytes& bytes);

  static constexpr uint64_t kTscHz = 1'000'000;  ///< the test's clock: microseconds
  uint64_t now_{1'000'000};
  eal::Mempool pool_;
  std::unique_ptr<CapturingOutput> output_;
  std::unique_ptr<Function> function_;
};

/// The MAC address of the test's port `index`.
MacAddress port_mac(uint16_t index);

}  // namespace headrace::vnf
