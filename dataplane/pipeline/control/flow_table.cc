// SPDX-License-Identifier: Apache-2.0
#include "pipeline/control/flow_table.h"

#include <algorithm>

#include "match/structures/fold.h"

namespace headrace::pipeline {
namespace {

using match::FlowKey;
using match::kFieldWords;
using match::Match;
using match::word;

uint64_t hash_of(const Match& match) {
  uint64_t hash = match.words * 0x9e3779b97f4a7c15ull;
  for (match::WordSet words = match.words; words != 0; words &= words - 1) {
    hash ^= word(match.value, static_cast<size_t>(__builtin_ctz(words)));
    hash = match::fold(hash ^ 0xa0761d6478bd642full, 0xe7037ed1a0b428dbull);
  }
  return hash;
}

/// True if all bits of `inner` are in `outer`.
bool covers(const FlowKey& outer, const FlowKey& inner) {
  for (size_t i = 0; i < kFieldWords; ++i) {
    if ((word(inner, i) & ~word(outer, i)) != 0) return false;
  }
  return true;
}

bool value_matches(const FlowKey& value, const Match& filter) {
  return filter.matches(value);
}

template <typename Predicate>
bool any_action(const InstructionList& instructions, Predicate&& predicate) {
  const auto any = [&](const ActionList& actions) {
    return std::any_of(actions.begin(), actions.end(), predicate);
  };
  return std::any_of(instructions.begin(), instructions.end(), [&](const Instruction& i) {
    if (const auto* apply = std::get_if<ApplyActions>(&i)) return any(apply->actions);
    if (const auto* write = std::get_if<WriteActions>(&i)) return any(write->actions);
    return false;
  });
}

}  // namespace

FlowTable::~FlowTable() {
  for (auto& [mask, group] : groups_) {
    for (Flow* head : group->buckets) {
      while (head != nullptr) {
        Flow* next_head = head->next_in_bucket;
        while (head != nullptr) {
          const std::shared_ptr<Flow> gone = std::move(std::exchange(head, head->next_lower)->self);
        }
        head = next_head;
      }
    }
  }
}

MaskGroup* FlowTable::group_of(const Match& match) const {
  if (last_group_ != nullptr && last_group_->words == match.words &&
      std::memcmp(&last_group_->mask, &match.mask, sizeof match.mask) == 0) {
    return last_group_;
  }
  const auto found = groups_.find(match.mask);
  if (found == groups_.end()) return nullptr;
  last_group_ = found->second.get();
  return last_group_;
}

Flow** FlowTable::slot(MaskGroup& group, const Match& match, uint64_t hash) {
  Flow** at = &group.buckets[hash & (group.buckets.size() - 1)];
  while (*at != nullptr && ((*at)->hash != hash || std::memcmp(&(*at)->match.value, &match.value,
                                                               sizeof match.value) != 0)) {
    at = &(*at)->next_in_bucket;
  }
  return at;
}

void FlowTable::grow(MaskGroup& group) {
  std::vector<Flow*> old(std::max<size_t>(16, group.buckets.size() * 2), nullptr);
  old.swap(group.buckets);
  for (Flow* head : old) {
    while (head != nullptr) {
      Flow* next = head->next_in_bucket;
      Flow** bucket = &group.buckets[head->hash & (group.buckets.size() - 1)];
      head->next_in_bucket = *bucket;
      *bucket = head;
      head = next;
    }
  }
}

Flow* FlowTable::head(const Match& match) const {
  MaskGroup* group = group_of(match);
  return group == nullptr ? nullptr : *slot(*group, match, hash_of(match));
}

Flow* FlowTable::find(const Match& match, uint16_t priority) const {
  for (Flow* flow = head(match); flow != nullptr; flow = flow->next_lower) {
    if (flow->priority == priority) return flow;
  }
  return nullptr;
}

Flow& FlowTable::insert(std::shared_ptr<Flow> owned) {
  Flow* flow = owned.get();
  flow->self = std::move(owned);
  MaskGroup* group = group_of(flow->match);
  if (group == nullptr) {
    auto made = std::make_unique<MaskGroup>();
    made->mask = flow->match.mask;
    made->words = flow->match.words;
    group = made.get();
    groups_.emplace(flow->match.mask, std::move(made));
  }
  if (group->heads >= group->buckets.size()) grow(*group);
  flow->group = group;
  flow->hash = hash_of(flow->match);
  Flow** at = slot(*group, flow->match, flow->hash);
  Flow* chain = *at;
  if (chain == nullptr || chain->priority < flow->priority) {  // the new head
    flow->next_in_bucket = chain == nullptr ? nullptr : chain->next_in_bucket;
    flow->next_lower = chain;
    if (chain == nullptr) {
      ++group->heads;
    } else {
      chain->next_in_bucket = nullptr;
    }
    *at = flow;
  } else {
    while (chain->next_lower != nullptr && chain->next_lower->priority > flow->priority) {
      chain = chain->next_lower;
    }
    flow->next_lower = chain->next_lower;
    chain->next_lower = flow;
  }
  ++group->flows;
  ++size_;
  return *flow;
}

std::shared_ptr<Flow> FlowTable::remove(Flow& flow) {
  MaskGroup& group = *flow.group;
  Flow** at = slot(group, flow.match, flow.hash);
  if (*at == &flow) {
    if (flow.next_lower != nullptr) {
      flow.next_lower->next_in_bucket = flow.next_in_bucket;
      *at = flow.next_lower;
    } else {
      *at = flow.next_in_bucket;
      --group.heads;
    }
  } else {
    Flow* above = *at;
    while (above->next_lower != &flow) above = above->next_lower;
    above->next_lower = flow.next_lower;
  }
  flow.next_in_bucket = flow.next_lower = nullptr;
  flow.group = nullptr;
  --size_;
  if (--group.flows == 0) {
    if (last_group_ == &group) last_group_ = nullptr;
    groups_.erase(FlowKey(group.mask));
  }
  return std::move(flow.self);
}

void FlowTable::select(const Match& filter, const std::function<void(Flow&)>& visit) const {
  for (const auto& [mask, group] : groups_) {
    if (!covers(mask, filter.mask)) continue;
    if (std::memcmp(&mask, &filter.mask, sizeof mask) == 0) {
      for (Flow* flow = *slot(*group, filter, hash_of(filter)); flow != nullptr;
           flow = flow->next_lower) {
        visit(*flow);
      }
      continue;
    }
    for (Flow* head : group->buckets) {
      for (; head != nullptr; head = head->next_in_bucket) {
        if (!value_matches(head->match.value, filter)) continue;
        for (Flow* flow = head; flow != nullptr; flow = flow->next_lower) visit(*flow);
      }
    }
  }
}

void FlowTable::for_each_head(const std::function<void(const Flow&)>& visit) const {
  for (const auto& [mask, group] : groups_) {
    for (const Flow* head : group->buckets) {
      for (; head != nullptr; head = head->next_in_bucket) visit(*head);
    }
  }
}

bool FlowTable::overlaps(const Match& match, uint16_t priority) const {
  const auto has_priority = [&](const Flow* flow) {
    while (flow != nullptr && flow->priority != priority) flow = flow->next_lower;
    return flow != nullptr;
  };
  for (const auto& [mask, group] : groups_) {
    if (std::memcmp(&mask, &match.mask, sizeof mask) == 0) {
      if (has_priority(*slot(*group, match, hash_of(match)))) return true;
      continue;
    }
    for (const Flow* head : group->buckets) {
      for (; head != nullptr; head = head->next_in_bucket) {
        bool disjoint = false;
        for (size_t i = 0; i < kFieldWords && !disjoint; ++i) {
          disjoint = ((word(head->match.value, i) ^ word(match.value, i)) &
                      word(head->match.mask, i) & word(match.mask, i)) != 0;
        }
        if (!disjoint && has_priority(head)) return true;
      }
    }
  }
  return false;
}

size_t FlowTable::fullest_bucket() const {
  size_t fullest = 0;
  for (const auto& [mask, group] : groups_) {
    for (const Flow* head : group->buckets) {
      size_t heads = 0;
      for (; head != nullptr; head = head->next_in_bucket) ++heads;
      fullest = std::max(fullest, heads);
    }
  }
  return fullest;
}

bool selects(const FlowFilter& filter, const FlowStats& flow) {
  return (filter.table_id == kTableAll || filter.table_id == flow.table_id) &&
         ((flow.cookie ^ filter.cookie) & filter.cookie_mask) == 0 &&
         covers(flow.match.mask, filter.match.mask) &&
         value_matches(flow.match.value, filter.match) &&
         refers_to_port(flow.instructions, filter.out_port) &&
         refers_to_group(flow.instructions, filter.out_group);
}

bool refers_to_port(const InstructionList& instructions, PortNo port) {
  return port == kPortAny || any_action(instructions, [&](const Action& action) {
           const auto* output = action.as<OutputAction>();
           return output != nullptr && output->port == port;
         });
}

bool refers_to_group(const InstructionList& instructions, uint32_t group_id) {
  return group_id == kGroupAny || any_action(instructions, [&](const Action& action) {
           const auto* group = action.as<GroupAction>();
           return group != nullptr && group->group_id == group_id;
         });
}

std::vector<uint32_t> groups_of(const InstructionList& instructions) {
  std::vector<uint32_t> groups;
  (void)any_action(instructions, [&](const Action& action) {
    const auto* group = action.as<GroupAction>();
    if (group != nullptr &&
        std::find(groups.begin(), groups.end(), group->group_id) == groups.end()) {
      groups.push_back(group->group_id);
    }
    return false;
  });
  return groups;
}

std::optional<uint32_t> meter_of(const InstructionList& instructions) {
  for (const Instruction& instruction : instructions) {
    if (const auto* meter = std::get_if<MeterInstruction>(&instruction)) return meter->meter_id;
  }
  return std::nullopt;
}

}  // namespace headrace::pipeline
