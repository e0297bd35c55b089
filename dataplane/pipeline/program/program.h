// SPDX-License-Identifier: Apache-2.0
// What a worker runs: an LSI compiled.
//
// The contract between the control thread and workers, in one place:
//
// * An LsiProgram is immutable once published; a worker loads the pointer (acquire) at the start
//   of a burst and uses that program to its end. What changes often is not in it but behind it:
// * Rules. The classifiers yield indices into one array of rules per LSI, which never moves. A slot
//   is written before its index is inserted in a classifier (release), and written again only after
//   a grace period since its index was erased. So a worker that holds an index may read the rule.
//   A rule is never changed while it is published: to modify a flow, a new slot is written and the
//   classifier's entry is pointed to it.
// * Classifiers take inserts and erases beside readers (one writer). A change that a classifier
//   can't take in place makes a new one, in a new TableProgram, in a new LsiProgram.
// * Ports, groups and meters stand behind handles (handles.h), groups and meters by version
//   (versioned.h).
// * Counters are the workers' own (counters.h).
//
// Rule 0 of every LSI is no flow: it is what a packet gets that matches nothing in a table without
// a table-miss entry.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "match/fields/extract.h"
#include "match/table/compiled_table.h"
#include "pipeline/program/counters.h"
#include "pipeline/program/handles.h"
#include "pipeline/program/receive_feature.h"
#include "pipeline/program/rule.h"

namespace headrace::packet {
class MacTable;
}  // namespace headrace::packet

namespace headrace::pipeline {

struct LsiProgram {
  uint32_t lsi_id{0};
  uint64_t version{0};  ///< greater than that of the one before: groups and meters go with it
  const Rule* rules{nullptr};
  const CounterSpace* counters{nullptr};
  packet::MacTable* macs{nullptr};               ///< for NORMAL; written by workers
  bool forwards_reserved{false};                 ///< NORMAL, to 01:80:c2:00:00:0x
  packet::Depth depth{packet::Depth::l2};        ///< how far packets must be parsed
  match::Extractor extract{nullptr};             ///< parses a burst to that depth
  uint8_t receive_features{0};                   ///< ReceiveFeatureBit: of all its ports
  std::shared_ptr<Defragmenter> defragmenter{};  ///< reassembles what comes in; null: nothing does
  std::array<const match::CompiledTable*, kTableCount> tables{};  ///< null: no rules
  std::vector<std::shared_ptr<const match::CompiledTable>> keep;  ///< owns `tables`
  std::vector<const Port*> ports;                                 ///< ascending by number
  std::array<const Port*, 64> low_ports{};  ///< the same, by number, where it is small

  /// The port with this number, or null.
  [[nodiscard]] const Port* port(PortNo number) const {
    if (number < low_ports.size()) return low_ports[number];
    for (const Port* port : ports) {
      if (port->number == number) return port;
    }
    return nullptr;
  }
};

}  // namespace headrace::pipeline
