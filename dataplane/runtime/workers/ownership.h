// SPDX-License-Identifier: Apache-2.0
// Who may use which queue: the one table of owners.
//
// What. Receive queues, the schedulers of ports with QoS, and the rings of a shared-memory group
// are each for one thread at a time: their drivers and rings keep no locks. The table has a row for
// each of them, and a row names at most one worker. A worker uses what its poll plan names, plans
// are made from this table and from nothing else, and a thread that is in no row uses nothing. What
// several queues share (all rings of a shared-memory group, with its schedulers) is one row.
//
// Hand-over has two phases, because a worker goes on with its old plan until its round is over:
//
//   1. withdrawn: the row has no owner, the old owner gets a plan without it, and a grace period
//      begins (Qsbr);
//   2. granted: when every worker has completed a round, so that the old owner has left, the row
//      has its new owner, who gets a plan with it.
//
// In between nobody uses it: for a receive queue this is as if the worker took a round longer. The
// grace period also orders memory: what the old owner wrote, the new one sees. A row that does not
// move is not touched, and the worker that it is with gets no new plan for its sake. If the wish
// changes in phase 1 then the last one is granted. A row that nobody used before is granted at
// once. A row that is removed stays, withdrawn, for the grace period: the same queue may be wanted
// again meanwhile.
//
// Transmit queues are not dealt: the worker that has a packet sends it, on queue (worker number
// modulo queues) of the device. A queue to which one worker maps is that worker's; one to which
// several do has a lock, and belongs to who holds it (tx_queues.h). This changes in the same two
// phases: first a queue is locked, then, a grace period later, a second worker may send on it
// (WorkerPool::set_cpus()). Ports that only one worker may send on at all, those of a shared-memory
// group, get packets of others by a ring (owner_tx.h), whose reader is the owner of the group's
// row. Ports that lock by themselves (Port::tx_is_concurrent()) are in no row.
//
// Thread safety: control thread only. Workers see plans.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "pipeline/terms/reclaimer.h"

namespace headrace::runtime {

/// What one worker at a time may use: a queue of a port, a scheduler (queue 0 of itself), or a
/// group (queue 0 of itself).
struct Owned {
  const void* object;
  uint32_t queue{0};
  auto operator<=>(const Owned&) const = default;
};

/// To whom it is to belong, by the worker's number; nothing: nobody may use it.
struct Grant {
  Owned what;
  std::optional<unsigned> worker;
};

class OwnershipTable {
 public:
  /// `publish` makes poll plans from owner(); it is called when owners changed. `reclaimer` must
  /// outlive the table, and may call back later than that: such calls do nothing.
  OwnershipTable(pipeline::Reclaimer& reclaimer, std::function<void()> publish);
  OwnershipTable(const OwnershipTable&) = delete;
  OwnershipTable& operator=(const OwnershipTable&) = delete;

  /// How it is to be from now on; what is not named is withdrawn, and forgotten. Publishes what can
  /// be so at once, and the rest a grace period later. What the plans before named must stay until
  /// then.
  void assign(std::span<const Grant> grants);

  /// Who may use it now; nothing: nobody, or it is not in the table.
  [[nodiscard]] std::optional<unsigned> owner(const Owned& what) const;

  /// That worker's thread has ended: it uses nothing any more. Publishes nothing.
  void worker_ended(unsigned worker);

  /// Rows that are between two owners.
  [[nodiscard]] size_t withdrawn() const;

 private:
  struct Row {
    std::optional<unsigned> owner;   ///< who uses it
    std::optional<unsigned> wanted;  ///< who is to
    std::optional<uint64_t> period;  ///< the grace period that must end before it is granted
    bool removed{false};
  };
  void end_period(uint64_t period);

  pipeline::Reclaimer& reclaimer_;
  std::function<void()> publish_;
  std::map<Owned, Row> rows_;
  uint64_t period_{0};
  /// What deferred functions hold weakly: the table may go before they run.
  std::shared_ptr<OwnershipTable*> self_;
};

}  // namespace headrace::runtime
