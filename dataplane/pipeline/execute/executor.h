// SPDX-License-Identifier: Apache-2.0
// Runs packets through LSI programs: one Executor per worker.
//
// A burst takes each table whole. For every table with packets waiting, in ascending order, the
// executor looks up all of them at once, counts, runs the rules' actions, and moves each packet to
// the table that its rule goes to; as goto only leads upwards, one pass visits each table at most
// once. Which packets wait at which table is a 32-bit set per table: while all packets go the same
// way the sets are all-or-nothing, and no packet is moved or copied for the split. Order within a
// flow is kept, because a set is walked in the order of arrival.
//
// Packets that leave gather per port, and go out in bursts: when 32 are together, or at flush().
// What leaves by a patch port comes in at its peer before run() returns, so a chain of LSIs is
// crossed in one call; a packet that has crossed kMaxPatchDepth patches is dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "pipeline/terms/flow_types.h"
#include "pipeline/terms/limits.h"
#include "pipeline/terms/port_io.h"
#include "pipeline/terms/punt.h"

namespace headrace::pipeline {

struct Execution;
struct LsiProgram;
class ActionProgram;

class Executor {
 public:
  /// `worker` is this executor's number: two executors that run at once have different ones.
  /// `punts` gets the packets for the controller, and must outlive the executor.
  Executor(unsigned worker, PuntQueue& punts);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// The time for meters and idle timeouts, in TSC cycles; set it once per poll round.
  void set_time(uint64_t tsc) noexcept;

  /// Counts the cycles of each table, too; costs three time stamps per burst and table.
  void set_timing(bool on) noexcept;

  /// No other worker runs packets at present, nor before a grace period after this is taken back:
  /// what workers share (meters) is then changed without atomic exchanges. At first: not alone.
  void set_alone(bool alone) noexcept;

  /// Takes up to kBurst packets that came in by `in_port` through the LSI. Owns them afterwards.
  void run(const LsiProgram& program, PortNo in_port, std::span<rte_mbuf*> packets) noexcept;

  /// Runs a packet-out's actions on one packet, as if it had come in by `in_port` (a real port, or
  /// kPortController). Owns the packet afterwards.
  void packet_out(const LsiProgram& program, PortNo in_port, const ActionProgram& actions,
                  rte_mbuf* packet) noexcept;

  /// Sends all that waits in the transmit buffers; the end of each poll round. After it, the
  /// worker holds nothing of any program and may report a quiescent state.
  void flush() noexcept;

  [[nodiscard]] unsigned worker() const { return worker_; }

 private:
  unsigned worker_;
  std::unique_ptr<Execution> execution_;
};

}  // namespace headrace::pipeline
