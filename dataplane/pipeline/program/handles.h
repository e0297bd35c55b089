// SPDX-License-Identifier: Apache-2.0
// RCU handles: what compiled rules refer to ports, groups and meters by.
//
// A rule outlives changes of what it points to: a port may come and go, a group be given other
// buckets. So a rule refers to a handle, which stands for a number and lives as long as its LSI;
// and the handle holds the present port, or null. The control thread swaps the pointer and reclaims
// the old object after a grace period; no rule is touched. Groups and meters are found by the
// version of the program, too (versioned.h), so that those that a bundle changes change with its
// flows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/program/action_program.h"
#include "pipeline/program/counters.h"
#include "pipeline/program/rule.h"
#include "pipeline/program/select_memory.h"
#include "pipeline/program/versioned.h"
#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/port_io.h"
#include "pipeline/terms/port_vlans.h"

namespace headrace::pipeline {

class Defragmenter;
class PublishedProgram;
class TunnelIngress;
struct GroupProgram;
struct MeterProgram;
struct PortMirrors;
struct TunnelEgress;

/// What becomes of packets on their way out of a port.
enum class TxHook : uint8_t {
  none,    ///< they go to its device
  patch,   ///< to the patch queue: a patch, a tunnel, or a LOCAL port where tunnels end
  mirror,  ///< mirrors are asked first, then one of the above
};

/// A port as workers see it. All but the atomics is fixed while it is published; `io` is never set
/// to null or from null.
struct Port {
  PortNo number{0};
  uint32_t egress{0};  ///< its transmit buffer in every executor; unique in the process
  std::atomic<PortIo*> io{nullptr};  ///< null: a patch or a tunnel
  std::atomic<TxHook> tx_hook{TxHook::none};
  bool is_tunnel{false};  ///< received packets have their tunnel's fields with them
  /// ReceiveFeatureBit: what is done with received packets before the tables.
  std::atomic<uint8_t> receive_features{0};
  /// What it is to its LSI's mirrors; null: there are none.
  std::atomic<const PortMirrors*> mirrors{nullptr};
  /// A tunnel port's: how to encapsulate; null: it can't at present.
  std::atomic<const TunnelEgress*> egress_tunnel{nullptr};
  /// Of a LOCAL port: the tunnels that end there; null: none.
  std::atomic<const TunnelIngress*> ingress_tunnels{nullptr};
  /// Octets of the longest frame with one VLAN tag that its device may be given (egress_mtu.h).
  std::atomic<uint32_t> max_frame{UINT32_MAX};
  /// Why packets may not be sent to it, or DropReason::none.
  std::atomic<DropReason> send_refusal{DropReason::none};
  /// Why packets received on it are dropped, or DropReason::none.
  std::atomic<DropReason> receive_refusal{DropReason::none};
  std::atomic<bool> packet_in{true};  ///< without OFPPC_NO_PACKET_IN
  std::atomic<bool> live{true};       ///< for fast failover
  /// A patch port's other end: which port of which LSI packets come in by; null: unconnected.
  std::atomic<const PublishedProgram*> peer{nullptr};
  std::atomic<PortNo> peer_port{0};
  /// What NORMAL does with VLANs here; null: the port is a trunk of all.
  std::atomic<const PortVlans*> vlans{nullptr};
  VirtualArray<PortCounts> counts{kMaxWorkers};
  /// What is sent to it comes back by it whole; null: an ordinary port.
  std::shared_ptr<Defragmenter> defragmenter{};
  /// Owners of what the pointers above point to; the control thread's.
  std::shared_ptr<const PortVlans> vlans_owner{};
  std::shared_ptr<const PortMirrors> mirrors_owner{};
  std::shared_ptr<const TunnelEgress> egress_owner{};
  std::shared_ptr<const TunnelIngress> ingress_owner{};
};

struct PortHandle {
  PortNo number{0};
  std::atomic<const Port*> port{nullptr};
};

class GroupHandle final : public VersionedHandle<GroupProgram> {};
class MeterHandle final : public VersionedHandle<MeterProgram> {};

inline constexpr uint16_t kNoBucket = 0xffff;

/// A bucket of a group.
struct BucketProgram {
  /// What it counts under and, if its fast-path class is forward, all that it does; else it is
  /// general.
  Rule rule{};
  std::vector<Op> ops;       ///< an action set, in its order of execution
  uint32_t action_class{0};  ///< see GeneralRule; buckets of one number run together
  bool edits{false};         ///< some op is more than an output
  uint16_t weight{0};
  const PortHandle* watch_port{nullptr};    ///< null: none
  const GroupHandle* watch_group{nullptr};  ///< null: none
  uint16_t id{0};  ///< stays while the group has a bucket with these actions
};

struct GroupProgram : Versioned<GroupProgram> {
  GroupMod::Type type{};
  bool watched{false};  ///< some bucket's life depends on a port or a group
  CounterIndex counter{0};
  std::vector<BucketProgram> buckets;
  /// Of a select group: bucket indices in proportion to the weights; the flow hash picks.
  std::vector<uint16_t> bucket_table;
  /// Of a stateful select group: what its flows were given, by BucketProgram::id; shared with the
  /// programs before and after this one.
  std::shared_ptr<SelectMemory> memory{};
  std::vector<uint16_t> index_of_id{};  ///< kNoBucket: no such bucket any more
  bool paired{false};  ///< its memory is other groups', too, and goes by pair_hash()
};

}  // namespace headrace::pipeline
