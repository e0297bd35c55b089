// SPDX-License-Identifier: Apache-2.0
// One writer changes a classifier while readers look up. Rules that are never touched must be found
// in every look-up; rules that come and go give their own index or the default, nothing else.
//
// Reclamation is by epochs, as RCU does it: what is deferred runs once every reader has finished
// the look-up it was in, and memory is poisoned by AddressSanitizer from then on.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "match/structures/acl_rules.h"
#include "match/structures/bit_vectors.h"
#include "match/structures/decision_tree.h"
#include "match/structures/direct_table.h"
#include "match/structures/hash_table.h"
#include "match/structures/prefix_table.h"
#include "match/structures/tuple_space.h"
#include "match/structures/word_table.h"
#include "match/table/compiled_table.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

constexpr size_t kReaders = 2;
constexpr uint32_t kChurned = 1000000;  ///< indices from here on belong to rules that come and go

/// A grace period by counting: each reader bumps its counter between look-ups.
class Epochs {
 public:
  void quiesce(size_t reader) { passed_[reader].fetch_add(1, std::memory_order_acq_rel); }

  [[nodiscard]] Defer defer() {
    return [this](std::function<void()> free) {
      Waiting waiting{{}, std::move(free)};
      for (size_t r = 0; r < kReaders; ++r) waiting.seen[r] = passed_[r].load();
      queue_.push_back(std::move(waiting));
      reclaim();
    };
  }

  /// Frees what no reader can see any more; all of it once `readers_gone`.
  void reclaim(bool readers_gone = false) {
    while (!queue_.empty()) {
      const Waiting& oldest = queue_.front();
      for (size_t r = 0; r < kReaders && !readers_gone; ++r) {
        // A look-up that was under way may have begun before the unlinking: two bumps end it.
        if (passed_[r].load() < oldest.seen[r] + 2) return;
      }
      const std::function<void()> free = std::move(queue_.front().free);
      queue_.pop_front();
      free();
    }
  }

 private:
  struct Waiting {
    std::array<uint64_t, kReaders> seen;
    std::function<void()> free;
  };
  std::array<std::atomic<uint64_t>, kReaders> passed_{};
  std::deque<Waiting> queue_;
};

Match mac_rule(uint32_t host) {
  Match match;
  uint8_t mac[6] = {2};
  packet::store_be32(mac + 2, host);
  match.add(Field::eth_dst, mac);
  return match;
}

Match route(uint32_t network, uint32_t length) {
  Match match;
  const uint8_t type[2] = {8, 0};
  uint8_t address[4];
  uint8_t mask[4];
  packet::store_be32(address, network);
  packet::store_be32(mask, length == 0 ? 0 : ~uint32_t{0} << (32 - length));
  match.add(Field::eth_type, type);
  match.add(Field::ipv4_dst, address, mask);
  return match;
}

/// What a test brings: rules that stay (index = position), rules that come and go.
struct Rules {
  std::vector<Match> lasting;
  std::vector<Match> churned;
  std::vector<uint16_t> lasting_priority;
  uint16_t churned_priority;
};

/// `Table` has lookup(); `change(rule, present)` inserts or erases churned rule number `rule`.
template <typename Table>
void race(const Table& table, const Rules& rules, Epochs& epochs,
          const std::function<void(uint32_t rule, bool present)>& change) {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> looked_up{0};
  const auto read = [&](size_t reader) {
    FlowKey burst[kBurst];
    uint8_t active[kBurst];
    uint32_t results[kBurst];
    std::iota(active, active + kBurst, uint8_t{0});
    uint32_t turn = static_cast<uint32_t>(reader);
    while (!stop.load(std::memory_order_relaxed)) {
      uint32_t expected[kBurst];
      for (size_t i = 0; i < kBurst; ++i, ++turn) {
        const bool lasting = i % 2 == 0;
        const uint32_t rule =
            turn % static_cast<uint32_t>(lasting ? rules.lasting.size() : rules.churned.size());
        burst[i] = lasting ? rules.lasting[rule].value : rules.churned[rule].value;
        expected[i] = lasting ? rule : kChurned + rule;
      }
      table.lookup(burst, active, results, kAllWords);
      for (size_t i = 0; i < kBurst; ++i) {
        const bool right =
            results[i] == expected[i] || (expected[i] >= kChurned && results[i] == kMiss);
        wrong += right ? 0 : 1;
      }
      looked_up.fetch_add(kBurst, std::memory_order_relaxed);
      epochs.quiesce(reader);
    }
  };
  std::vector<std::thread> readers;
  for (size_t r = 0; r < kReaders; ++r) readers.emplace_back(read, r);
  const auto churned = static_cast<uint32_t>(rules.churned.size());
  // At least three rounds, and until the readers have seen some of it.
  for (int round = 0; round < 3 || looked_up.load() < 20000; ++round) {
    for (uint32_t i = 0; i < churned; ++i) change(i, true);
    for (uint32_t i = 0; i < churned; ++i) change(i, false);
    epochs.reclaim();
  }
  stop = true;
  for (std::thread& each : readers) each.join();
  epochs.reclaim(true);
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GE(looked_up.load(), 20000u);
}

/// Races a classifier that is changed directly.
void race_classifier(Classifier& table, const Rules& rules, Epochs& epochs) {
  for (uint32_t i = 0; i < rules.lasting.size(); ++i) {
    ASSERT_TRUE(table.insert(rules.lasting[i], rules.lasting_priority[i], i));
  }
  race(table, rules, epochs, [&](uint32_t rule, bool present) {
    if (present) {
      ASSERT_TRUE(table.insert(rules.churned[rule], rules.churned_priority, kChurned + rule));
    } else {
      ASSERT_TRUE(table.erase(rules.churned[rule], rules.churned_priority));
    }
  });
}

Rules mac_rules(uint32_t lasting, uint32_t churned) {
  Rules rules{{}, {}, std::vector<uint16_t>(lasting, 5), 5};
  for (uint32_t i = 0; i < lasting; ++i) rules.lasting.push_back(mac_rule(i));
  for (uint32_t i = 0; i < churned; ++i) rules.churned.push_back(mac_rule(lasting + i));
  return rules;
}

/// /24 routes that stay, and /28 to /32 in other /24s of the same /16s that come and go.
Rules route_rules() {
  Rules rules{{}, {}, {}, 5};
  for (uint32_t i = 0; i < 200; ++i) {
    rules.lasting.push_back(route(0x0a000000 + (i << 16), 24));
    rules.lasting_priority.push_back(5);
  }
  for (uint32_t i = 0; i < 1000; ++i) {
    rules.churned.push_back(route(0x0a000100 + (i % 200 << 16) + (i / 200 << 8), 28 + i % 5));
  }
  return rules;
}

TEST(ConcurrencyTest, Hash) {
  Epochs epochs;
  HashTable table(mac_rule(0).mask, 0, epochs.defer());
  race_classifier(table, mac_rules(300, 3000), epochs);
}

TEST(ConcurrencyTest, HashOfOneWord) {
  Epochs epochs;
  WordTable table(mac_rule(0).mask, 0, epochs.defer());
  race_classifier(table, mac_rules(300, 3000), epochs);
}

TEST(ConcurrencyTest, Direct) {
  Epochs epochs;
  DirectTable table(epochs.defer());
  race_classifier(table, mac_rules(4, 4), epochs);
}

TEST(ConcurrencyTest, Prefix) {
  Epochs epochs;
  const Rules rules = route_rules();
  PrefixTable<2> table(prefix_form_of(rules.lasting[0], Field::ipv4_dst), epochs.defer());
  race_classifier(table, rules, epochs);
}

TEST(ConcurrencyTest, TupleSpace) {
  Epochs epochs;
  TupleSpace table(epochs.defer());
  Rules rules = route_rules();
  rules.churned.resize(200);
  race_classifier(table, rules, epochs);
}

/// Prefixes of many lengths that stay, and others of many masks that come and go.
Rules rules_of_many_masks() {
  Rules rules{{}, {}, {}, 5};
  for (uint32_t i = 0; i < 1000; ++i) {
    Match match = route(0x0a000000 + (i % 200 << 16) + (i / 200 << 8), 24 + i % 9);
    const uint8_t proto = i % 2 == 0 ? 6 : 17;
    if (i % 3 != 0) match.add(Field::ip_proto, &proto);
    rules.churned.push_back(match);
  }
  for (uint32_t i = 0; i < 200; ++i) {
    Match match = route(0x0b000000 + (i << 16), 16 + i % 17);
    const uint8_t proto = i % 2 == 0 ? 6 : 17;
    if (i % 3 != 0) match.add(Field::ip_proto, &proto);
    rules.lasting.push_back(match);
    rules.lasting_priority.push_back(static_cast<uint16_t>(4 + i % 3));
  }
  return rules;
}

/// Leaves are cut and trees grow while workers read them.
TEST(ConcurrencyTest, DecisionTree) {
  Epochs epochs;
  DecisionTree table(1u | 1u << 3 | 1u << 4, epochs.defer());
  race_classifier(table, rules_of_many_masks(), epochs);
}

/// Places are left and taken again, prefixes come, groups of ports grow and shrink, and rules go to
/// places that are not in order, while workers read them.
TEST(ConcurrencyTest, BitVectors) {
  Epochs epochs;
  Rules rules = rules_of_many_masks();
  for (uint32_t i = 0; i < 300; ++i) {
    Match match = route(0x0c000000 + (i % 3 << 8), 32);
    const uint8_t proto = 17;
    const uint8_t port[2] = {static_cast<uint8_t>(i >> 4), static_cast<uint8_t>(i << 4)};
    match.add(Field::ip_proto, &proto);
    match.add(Field::udp_dst, port);
    rules.churned.push_back(match);
  }
  std::vector<RuleRef> all;
  for (uint32_t i = 0; i < rules.lasting.size(); ++i) {
    all.push_back({&rules.lasting[i], rules.lasting_priority[i], i});
  }
  // All but some, whose prefixes are new.
  const auto is_new = [](uint32_t rule) { return rule % 8 == 0; };
  for (uint32_t i = 0; i < rules.churned.size(); ++i) {
    if (!is_new(i)) all.push_back({&rules.churned[i], rules.churned_priority, kChurned + i});
  }
  const std::unique_ptr<BitVectors> table = BitVectors::make(all, epochs.defer());
  ASSERT_NE(table, nullptr);
  for (uint32_t i = 0; i < rules.churned.size(); ++i) {
    if (is_new(i)) continue;
    ASSERT_TRUE(table->erase(rules.churned[i], rules.churned_priority));
  }
  race(*table, rules, epochs, [&](uint32_t rule, bool now) {
    if (now) {
      ASSERT_TRUE(table->insert(rules.churned[rule], rules.churned_priority, kChurned + rule));
    } else {
      ASSERT_TRUE(table->erase(rules.churned[rule], rules.churned_priority));
    }
  });
}

TEST(ConcurrencyTest, CompiledTableThroughAllItsStructures) {
  Epochs epochs;
  Rules rules = mac_rules(4, 20);
  for (uint32_t i = 0; i < 60; ++i) {
    rules.churned.push_back(route(0x0a000000 + (i << 16), 16 + i % 9));
  }
  std::vector<bool> present(rules.churned.size());
  CompiledTable table(epochs.defer(), [&](const CompiledTable::RuleVisitor& visit) {
    for (uint32_t i = 0; i < rules.lasting.size(); ++i) visit(rules.lasting[i], 5, i);
    for (uint32_t i = 0; i < present.size(); ++i) {
      if (present[i]) visit(rules.churned[i], 5, kChurned + i);
    }
  });
  table.rebuild();
  race(table, rules, epochs, [&](uint32_t rule, bool now) {
    present[rule] = now;
    if (now) {
      ASSERT_TRUE(table.insert(rules.churned[rule], 5, kChurned + rule));
    } else {
      ASSERT_TRUE(table.erase(rules.churned[rule], 5));
    }
  });
  EXPECT_GT(table.rebuilds(), 6u);
}

}  // namespace
}  // namespace headrace::match
