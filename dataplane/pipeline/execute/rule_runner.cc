// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/rule_runner.h"

#include <rte_prefetch.h>

#include "pipeline/execute/meters.h"
#include "pipeline/execute/transmit.h"

namespace headrace::pipeline {

void ActionSet::write(const Op& op) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (ops[i]->set_slot != op.set_slot) ops[kept++] = ops[i];
  }
  ops[kept++] = &op;
  count = kept;
}

void ActionSet::arrange() {
  // Insertion sort: stable, and sets are short.
  bool grouped = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Op* op = ops[i];
    grouped = grouped || op->operation->order == SetOrder::group;
    uint32_t at = i;
    for (; at > 0 && ops[at - 1]->operation->order > op->operation->order; --at)
      ops[at] = ops[at - 1];
    ops[at] = op;
  }
  if (!grouped) return;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (ops[i]->operation->order != SetOrder::output) ops[kept++] = ops[i];
  }
  count = kept;
}

void run_ops(Execution& x, OpBurst& burst, size_t n, bool may_send) noexcept {
  for (size_t j = 0; j < n && burst.count != 0; ++j) {
    burst.last = may_send && j + 1 == n;
    burst.ops[0]->operation->run(x, burst);
    for (size_t k = 0; k < burst.count; ++k) ++burst.ops[k];
  }
}

namespace {

/// Packets that no op sent: they went somewhere before, or nowhere at all.
void end_packets(Execution& x, const OpBurst& burst) noexcept {
  for (size_t k = 0; k < burst.count; ++k) {
    rte_mbuf* packet = burst.block->packets[burst.at[k]];
    if ((x.burst.had_output >> burst.at[k] & 1) != 0) {
      x.tx.free(packet);
    } else {
      x.drop(packet, DropReason::no_output);
    }
  }
}

bool same_operations(const ActionSet& a, const ActionSet& b) {
  if (a.count != b.count) return false;
  for (uint32_t j = 0; j < a.count; ++j) {
    if (a.ops[j]->operation != b.ops[j]->operation) return false;
  }
  return true;
}

/// Runs the action sets of packets, which end here: those that do the same together.
void run_sets(Execution& x, OpBurst& burst) noexcept {
  for (size_t k = 0; k < burst.count; ++k) x.sets[burst.at[k]].arrange();
  while (burst.count != 0) {
    const ActionSet& first = x.sets[burst.at[0]];
    const uint32_t n_ops = first.count;
    OpBurst same;
    same.block = burst.block;
    same.nesting = 0;
    same.count = 0;
    size_t kept = 0;
    for (size_t k = 0; k < burst.count; ++k) {
      if (same_operations(x.sets[burst.at[k]], first)) {
        same.add(burst.at[k], nullptr, burst.rule[k]);
      } else {
        burst.keep(kept++, k);
      }
    }
    burst.count = kept;
    for (uint32_t j = 0; j < n_ops && same.count != 0; ++j) {
      same.last = j + 1 == n_ops;
      for (size_t k = 0; k < same.count; ++k) same.ops[k] = x.sets[same.at[k]].ops[j];
      same.ops[0]->operation->run(x, same);
    }
    end_packets(x, same);
  }
}

void write_sets(Execution& x, const OpBurst& burst, bool clear, bool write) noexcept {
  for (size_t k = 0; k < burst.count; ++k) {
    const uint8_t i = burst.at[k];
    const PacketSet self = PacketSet{1} << i;
    if (clear) x.burst.with_set &= ~self;
    if (!write) continue;
    if ((x.burst.with_set & self) == 0) x.sets[i].clear();
    x.burst.with_set |= self;
    for (const Op& op : burst.rule[k]->write) x.sets[i].write(op);
  }
}

/// Moves the packets whose sets are not empty to a burst of their own.
void part_by_set(Execution& x, OpBurst& burst, OpBurst& with_set) noexcept {
  size_t kept = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    if ((x.burst.with_set >> burst.at[k] & 1) != 0) {
      with_set.add(burst.at[k], nullptr, burst.rule[k]);
    } else {
      burst.keep(kept++, k);
    }
  }
  burst.count = kept;
}

/// Sends packets on to the next tables of their rules; `changes`: words of keys that ops changed.
void go_on(Execution& x, const OpBurst& burst, const std::array<const Rule*, kBurst>& rule_of,
           uint8_t flags, match::WordSet changes) noexcept {
  constexpr match::WordSet kMetadataWord = 1u << offsetof(match::FlowKey, metadata) / 8;
  if ((flags & kChangesLength) != 0) {
    for (size_t k = 0; k < burst.count; ++k) x.resize(burst.at[k]);
  }
  uint64_t written = 0;
  NextTableBatch onward(x);
  for (size_t k = 0; k < burst.count; ++k) {
    const uint8_t i = burst.at[k];
    const GeneralRule& general = general_of(*rule_of[i]);
    if (general.metadata_mask != 0) {
      uint64_t& metadata = x.main.keys[i].metadata;
      metadata = (metadata & ~general.metadata_mask) | general.metadata;
      written |= general.metadata_mask;
    }
    onward.add(i, rule_of[i]->next_table);
  }
  x.burst.metadata.differ |= changes | (written != 0 ? kMetadataWord : 0);
  if ((flags & kChangesLayout) != 0) {
    x.burst.metadata.plain_ipv4 = false;
    x.burst.metadata.ttl_lasts = false;
  }
}

/// Rules of one action class on packets that all have an action set, or none of which has.
void run_class(Execution& x, const RuleBurst& all, bool has_set) noexcept {
  const GeneralRule& first = general_of(*all.rule[0]);
  const bool final = all.rule[0]->next_table == kNoTable;
  const bool clears = (first.flags & kClearsSet) != 0;
  const bool writes = (first.flags & kWritesSet) != 0;
  std::array<const Rule*, kBurst> rule_of;  // by position
  match::WordSet changes = 0;
  OpBurst burst;
  burst.block = &x.main;
  burst.nesting = 0;
  burst.count = 0;
  for (size_t k = 0; k < all.count; ++k) {
    const Rule& rule = *all.rule[k];
    const GeneralRule& general = general_of(rule);
    rule_of[all.at[k]] = &rule;
    changes |= general.changes;
    burst.add(all.at[k], general.ops, rule.body);
  }
  if (first.meter != nullptr) {
    charge_meters(x, burst, [&rule_of](uint8_t i) { return general_of(*rule_of[i]).meter; });
  }
  if (final && !has_set) {
    run_ops(x, burst, first.n_ops, true);
    end_packets(x, burst);
    return;
  }
  const bool set_follows = writes || (has_set && !clears);
  run_ops(x, burst, first.n_apply, final && !set_follows);
  if (clears || writes) write_sets(x, burst, clears, writes);
  if (!final) {
    go_on(x, burst, rule_of, first.flags, changes);
    return;
  }
  OpBurst with_set;
  with_set.block = &x.main;
  with_set.nesting = 0;
  with_set.count = 0;
  part_by_set(x, burst, with_set);
  end_packets(x, burst);
  run_sets(x, with_set);
}

}  // namespace

void run_rules(Execution& x, const RuleBurst& burst) noexcept {
  // Mostly all are of one class, and nothing is to be moved.
  uint32_t differ = 0;
  PacketSet with_set = 0;
  const uint32_t first = general_of(*burst.rule[0]).action_class;
  for (size_t k = 0; k < burst.count; ++k) {
    differ |= general_of(*burst.rule[k]).action_class ^ first;
    with_set |= (x.burst.with_set >> burst.at[k] & 1) << k;
  }
  if (differ == 0 && (with_set == 0 || with_set == first_packets(burst.count))) {
    run_class(x, burst, with_set != 0);
    return;
  }
  RuleBurst left = burst;
  while (left.count != 0) {
    const uint32_t wanted = general_of(*left.rule[0]).action_class;
    const bool has_set = (x.burst.with_set >> left.at[0] & 1) != 0;
    RuleBurst same;
    size_t kept = 0;
    for (size_t k = 0; k < left.count; ++k) {
      if (general_of(*left.rule[k]).action_class == wanted &&
          ((x.burst.with_set >> left.at[k] & 1) != 0) == has_set) {
        same.add(left.at[k], left.rule[k]);
      } else {
        left.at[kept] = left.at[k];
        left.rule[kept++] = left.rule[k];
      }
    }
    left.count = kept;
    run_class(x, same, has_set);
  }
}

void drop_by(Execution& x, const Rule& rule, uint8_t i) noexcept {
  rte_mbuf* packet = x.main.packets[i];
  if (&rule == x.burst.program->rules + kNoRule) {
    x.drop(packet, DropReason::table_miss);
  } else if ((x.burst.had_output >> i & 1) != 0) {
    x.tx.free(packet);
  } else {
    x.drop(packet, DropReason::no_output);
  }
}

void parse_again(Execution& x, const PacketBlock& block, std::span<const uint8_t> at) noexcept {
  const Burst& burst = x.burst;
  const bool whole = &block == &x.main && at.size() == burst.count;
  if (!whole || burst.parse_depth == packet::Depth::full ||
      burst.parse_depth != burst.program->depth) {
    for (const uint8_t i : at) {
      match::refresh(burst.parse_depth, block.packets[i], block.keys[i], block.parsed[i]);
    }
    return;
  }
  // The whole burst at once. An extractor begins words 5 and 6 anew.
  struct Kept {
    uint64_t metadata;
    uint64_t tunnel_id;
  };
  std::array<Kept, kBurst> kept;
  for (size_t i = 0; i < burst.count; ++i) {
    kept[i] = {block.keys[i].metadata, block.keys[i].tunnel_id};
  }
  burst.program->extract({block.packets, burst.count}, {burst.in_port_number, burst.in_port_number},
                         block.keys, block.parsed);
  for (size_t i = 0; i < burst.count; ++i) {
    block.keys[i].metadata = kept[i].metadata;
    block.keys[i].tunnel_id = kept[i].tunnel_id;
  }
}

}  // namespace headrace::pipeline
