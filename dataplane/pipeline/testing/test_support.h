// SPDX-License-Identifier: Apache-2.0
// What the tests and benchmarks of this room share: an EAL without devices, frames, ports that
// remember what they were given.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/control/lsi.h"
#include "pipeline/execute/executor.h"

namespace headrace::pipeline::test {

using Bytes = std::vector<uint8_t>;

/// Starts the EAL (once) with ordinary pages and no devices.
void start_eal();

/// A pool that lives as long as the process.
rte_mempool* mbuf_pool();

/// An mbuf that holds `bytes`.
rte_mbuf* make_packet(const Bytes& bytes);
Bytes bytes_of(const rte_mbuf* packet);

/// What a frame is made of; unset parts take the defaults.
struct FrameSpec {
  MacAddress dst{0x02, 0, 0, 0, 0, 1};
  MacAddress src{0x02, 0, 0, 0, 0, 2};
  int vlan{-1};  ///< VID; -1: untagged
  uint16_t eth_type{0x0800};
  uint32_t ip_src{0x0a000001};  ///< host order, as all numbers here
  uint32_t ip_dst{0x0a000002};
  uint8_t ttl{64};
  uint8_t proto{17};
  uint8_t dscp{0};
  uint16_t l4_src{1000};
  uint16_t l4_dst{2000};
  size_t size{60};
};
/// A frame with right checksums. With an eth_type other than IPv4's, zeros follow the type.
Bytes make_frame(const FrameSpec& spec);

/// A port that keeps what is sent to it, and has room for `room` packets per burst.
class CapturePort final : public PortIo {
 public:
  ~CapturePort() override;
  uint16_t rx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override;
  uint16_t tx(uint16_t queue, std::span<rte_mbuf*> packets) noexcept override;
  uint16_t room{kBurst};
  std::vector<Bytes> sent;
};

/// Keeps what is punted.
class CapturePunts final : public PuntQueue {
 public:
  bool punt(rte_mbuf* packet, const PuntInfo& info) noexcept override;
  size_t room{1000};
  std::vector<std::pair<PuntInfo, Bytes>> punted;
};

/// A Reclaimer whose grace period ends when the test says so.
class ManualReclaimer final : public Reclaimer {
 public:
  void defer(std::function<void()> function) override { deferred.push_back(std::move(function)); }
  /// Runs what was deferred before this call.
  void end_grace_period();
  std::vector<std::function<void()>> deferred;
};

/// An LSI with capture ports 1..n and an executor on it; its clock stands still until moved.
class TestSwitch {
 public:
  explicit TestSwitch(unsigned n_ports, uint32_t id = 0);
  ~TestSwitch();

  /// Sends frames in by a port, in bursts, and flushes.
  void send(PortNo in_port, const std::vector<Bytes>& frames);
  /// What port `number` has sent since the last call.
  std::vector<Bytes> take(PortNo number);
  FlowStats flow(const FlowFilter& filter = {});

  static constexpr uint64_t kHz = 1'000'000'000;
  uint64_t now{kHz};
  ImmediateReclaimer reclaimer;
  std::map<PortNo, CapturePort> ports;
  CapturePunts punts;
  Lsi lsi;
  Executor executor{0, punts};
};

// --- flow-mods, tersely ---

struct FieldValue {
  match::Field field;
  uint64_t value;
  uint64_t mask{~uint64_t{0}};
};
/// A match of fields; values in host order. IPv6 addresses are those in 2001:db8::/64.
match::Match make_match(const std::vector<FieldValue>& fields);
SetFieldAction set_field(match::Field field, uint64_t value);
FlowMod add_flow(uint8_t table, uint16_t priority, match::Match match,
                 InstructionList instructions);

}  // namespace headrace::pipeline::test
