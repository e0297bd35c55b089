// SPDX-License-Identifier: Apache-2.0
// Cycles per packet of every classifier, by rules and flows; changes per second.
//
// Packets are drawn at random from `flows` prepared ones, so that caches see what they would see.
// Structures that have variants for vector instructions run with each that the processor has (the
// last argument: 0 portable, 1 AVX2, 2 AVX-512). To compare levels, run with
// --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "match/fields/bench_cycles.h"
#include "match/structures/classifier.h"
#include "match/structures/classifier_kind.h"
#include "match/structures/decision_tree.h"
#include "match/structures/direct_table.h"
#include "match/structures/hash_table.h"
#include "match/structures/prefix_table.h"
#include "match/structures/tuple_space.h"
#include "match/structures/word_table.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

using packet::store_be32;

Match mac_rule(uint32_t host) {
  Match match;
  uint8_t mac[6] = {2};
  store_be32(mac + 2, host);
  match.add(Field::eth_dst, mac);
  return match;
}

Match five_tuple(uint32_t flow) {
  Match match;
  const uint8_t type[] = {8, 0};
  const uint8_t proto = 17;
  uint8_t address[4];
  store_be32(address, 0x0a000000 + flow);
  const uint8_t port[] = {0, 80};
  match.add(Field::eth_type, type);
  match.add(Field::ip_proto, &proto);
  match.add(Field::ipv4_src, address);
  match.add(Field::ipv4_dst, address);
  match.add(Field::udp_dst, port);
  return match;
}

Match route(uint32_t network, uint32_t length) {
  Match match;
  const uint8_t type[] = {8, 0};
  uint8_t address[4];
  uint8_t mask[4];
  store_be32(address, network);
  store_be32(mask, length == 0 ? 0 : ~uint32_t{0} << (32 - length));
  match.add(Field::eth_type, type);
  match.add(Field::ipv4_dst, address, mask);
  return match;
}

/// A length as in a routing table: half /24, the rest between /8 and /32.
uint32_t mixed_length(std::mt19937& random) {
  return random() % 2 == 0 ? 24 : 8 + random() % 25;
}

/// Look-ups of random packets out of `flows`, in bursts that are copied in beforehand (a burst in
/// the pipeline was just written by the extractor, so it is hot).
void look_up(benchmark::State& state, const Classifier& table, const std::vector<FlowKey>& flows) {
  std::mt19937 random(1);
  static FlowKey burst[kBurst];
  uint8_t active[kBurst];
  uint32_t results[kBurst];
  std::iota(active, active + kBurst, uint8_t{0});
  CycleMeter meter(kBurst);
  uint64_t missed = 0;
  for (auto _ : state) {
    for (FlowKey& each : burst) each = flows[random() % flows.size()];
    meter.measure([&] { table.lookup(burst, active, results, kAllWords); });
    for (const uint32_t result : results) missed += result == kMiss ? 1 : 0;
  }
  meter.report(state);
  const auto count = static_cast<double>(state.iterations() * kBurst);
  state.counters["missed"] = static_cast<double>(missed) / count;
  state.counters["bytes"] = static_cast<double>(table.memory_bytes());
}

void direct(benchmark::State& state) {
  set_simd(static_cast<Simd>(state.range(1)));
  DirectTable table(defer_not);
  std::vector<FlowKey> flows;
  for (uint32_t i = 0; i < state.range(0); ++i) {
    const Match match = mac_rule(i);
    (void)table.insert(match, 1, i);
    flows.push_back(match.value);
  }
  look_up(state, table, flows);
}
BENCHMARK(direct)->ArgNames({"rules", "simd"})->ArgsProduct({{1, 2, 4, 8}, simd_arguments()});

template <typename Table, Match make(uint32_t)>
void hash(benchmark::State& state) {
  Table table(make(0).mask, 0, defer_not);
  std::vector<FlowKey> flows;
  for (uint32_t i = 0; i < state.range(0); ++i) {
    (void)table.insert(make(i), 1, i);
    flows.push_back(make(i).value);
  }
  look_up(state, table, flows);
}
BENCHMARK(hash<HashTable, mac_rule>)->Arg(100)->Arg(10000)->Arg(1000000);
BENCHMARK(hash<WordTable, mac_rule>)->Arg(100)->Arg(10000)->Arg(1000000);
BENCHMARK(hash<HashTable, five_tuple>)->Arg(100)->Arg(10000)->Arg(1000000);

/// Arguments: rules, flows, level.
template <size_t kRootOctets>
void prefix(benchmark::State& state) {
  set_simd(static_cast<Simd>(state.range(2)));
  PrefixTable<kRootOctets> table(prefix_form_of(route(0, 0), Field::ipv4_dst), defer_not);
  std::mt19937 random(2);
  std::vector<uint32_t> networks;
  for (uint32_t i = 0; i < state.range(0);) {
    const uint32_t length = mixed_length(random);
    const uint32_t network = static_cast<uint32_t>(random());
    if (!table.insert(route(network, length), static_cast<uint16_t>(length), i)) continue;
    networks.push_back(network);
    ++i;
  }
  std::vector<FlowKey> flows;
  for (int64_t i = 0; i < state.range(1); ++i) {
    flows.push_back(route(networks[random() % networks.size()] ^ random() % 256, 32).value);
  }
  look_up(state, table, flows);
}
void prefix_cases(benchmark::internal::Benchmark* bench) {
  constexpr std::array<std::array<int64_t, 2>, 6> kCases = {
      {{1, 1}, {100, 100}, {2000, 10000}, {10000, 10000}, {10000, 500000}, {500000, 500000}}};
  bench->ArgNames({"rules", "flows", "simd"});
  for (const auto& [rules, flows] : kCases) {
    for (const int64_t level : simd_arguments()) bench->Args({rules, flows, level});
  }
}
BENCHMARK(prefix<2>)->Apply(prefix_cases);
BENCHMARK(prefix<3>)->Apply(prefix_cases);

/// One rule per prefix length: as many tuples; all of one priority.
void tuples(benchmark::State& state) {
  TupleSpace table(defer_not);
  std::vector<FlowKey> flows;
  uint32_t index = 0;
  for (uint32_t t = 0; t < state.range(0); ++t) {
    for (uint32_t i = 0; i < 100; ++i) {
      const Match match = route(i << 24 | t << 16, 32 - t);
      (void)table.insert(match, 1, index++);
      flows.push_back(match.value);
    }
  }
  look_up(state, table, flows);
}
BENCHMARK(tuples)->Arg(1)->Arg(4)->Arg(16);

/// As many tuples of one rule each, and packets that none of them matches.
void tuples_missed(benchmark::State& state) {
  TupleSpace table(defer_not);
  for (uint32_t t = 0; t < state.range(0); ++t) {
    (void)table.insert(route(0xac000000 | t << 12, 32 - t % 24), 1, t);
  }
  std::mt19937 random(4);
  std::vector<FlowKey> flows;
  for (int i = 0; i < 10000; ++i) flows.push_back(route(static_cast<uint32_t>(random()), 32).value);
  look_up(state, table, flows);
}
BENCHMARK(tuples_missed)->Arg(3)->Arg(4)->Arg(24);

template <typename Table>
std::unique_ptr<Classifier> made_of(std::span<const RuleRef> rules) {
  if constexpr (std::is_same_v<Table, DecisionTree>) {
    return std::make_unique<DecisionTree>(rules, defer_not);
  } else {
    return filled(std::make_unique<Table>(defer_not), rules);
  }
}

/// Arguments: tuples of pairs of prefixes; one packet in so many is an attacker's, which no rule
/// matches (0: none is). All others hit one rule above the tuples.
template <typename Table>
void tuples_attacked(benchmark::State& state) {
  const Match honest = five_tuple(0);
  std::vector<Match> matches = {honest};
  std::vector<uint16_t> priorities = {1000};
  const auto octets = [](uint32_t value) {
    std::array<uint8_t, 4> bytes;
    store_be32(bytes.data(), value);
    return bytes;
  };
  for (uint32_t t = 0; t < state.range(0); ++t) {
    Match match = route(0xad000000, 4 + t % 8 * 4);
    const uint32_t mask = ~uint32_t{0} << (28 - t / 8 * 4);
    match.add(Field::ipv4_src, octets(0xac000000 & mask).data(), octets(mask).data());
    matches.push_back(std::move(match));
    priorities.push_back(static_cast<uint16_t>(10 + t));
  }
  std::vector<RuleRef> rules;
  for (uint32_t i = 0; i < matches.size(); ++i) rules.push_back({&matches[i], priorities[i], i});
  const std::unique_ptr<Classifier> made = made_of<Table>(rules);
  const Classifier& table = *made;
  std::mt19937 random(5);
  std::vector<FlowKey> hostile;
  for (int i = 0; i < 8192; ++i) {
    FlowKey packet = five_tuple(static_cast<uint32_t>(random())).value;
    packet.ipv4_dst = 0xc0a80001;
    hostile.push_back(packet);
  }
  static FlowKey burst[kBurst];
  uint8_t active[kBurst];
  uint32_t results[kBurst];
  std::iota(active, active + kBurst, uint8_t{0});
  CycleMeter meter(kBurst);
  const int64_t share = state.range(1);
  int64_t packets = 0;
  for (auto _ : state) {
    for (FlowKey& each : burst) {
      each =
          share != 0 && ++packets % share == 0 ? hostile[random() % hostile.size()] : honest.value;
    }
    meter.measure([&] { table.lookup(burst, active, results, kAllWords); });
  }
  meter.report(state);
}
BENCHMARK(tuples_attacked<TupleSpace>)->ArgsProduct({{3, 16, 64}, {0, 32, 8}});
BENCHMARK(tuples_attacked<DecisionTree>)->ArgsProduct({{3, 16, 64}, {0, 32, 8}});

// --- changes -----------------------------------------------------------------------------------

template <typename Table, Match make(uint32_t)>
void hash_changes(benchmark::State& state) {
  std::vector<Match> matches;
  for (uint32_t i = 0; i < state.range(0); ++i) matches.push_back(make(i));
  for (auto _ : state) {
    Table table(matches[0].mask, 0, defer_not);
    for (uint32_t i = 0; i < matches.size(); ++i) (void)table.insert(matches[i], 1, i);
    for (const Match& match : matches) table.erase(match, 1);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * 2);
}
BENCHMARK(hash_changes<HashTable, five_tuple>)
    ->Arg(10000)
    ->Arg(1000000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(hash_changes<HashTable, mac_rule>)->Arg(1000000)->Unit(benchmark::kMillisecond);
BENCHMARK(hash_changes<WordTable, mac_rule>)->Arg(1000000)->Unit(benchmark::kMillisecond);

void prefix_changes(benchmark::State& state) {
  std::mt19937 random(3);
  std::vector<Match> matches;
  for (uint32_t i = 0; i < state.range(0); ++i) {
    matches.push_back(route(static_cast<uint32_t>(random()), mixed_length(random)));
  }
  int64_t changes = 0;
  for (auto _ : state) {
    PrefixTable<2> table(prefix_form_of(matches[0], Field::ipv4_dst), defer_not);
    for (uint32_t i = 0; i < matches.size(); ++i) {
      changes += table.insert(matches[i], 1, i) ? 1 : 0;
    }
    for (const Match& match : matches) changes += table.erase(match, 1) ? 1 : 0;
  }
  state.SetItemsProcessed(changes);
}
BENCHMARK(prefix_changes)->Arg(10000)->Arg(500000)->Unit(benchmark::kMillisecond);

/// A table filled at once, as after a bundle; sorted beforehand.
void prefix_load(benchmark::State& state) {
  std::mt19937 random(3);
  const PrefixForm form = prefix_form_of(route(0, 0), Field::ipv4_dst);
  std::vector<PrefixRef> rules;
  for (uint32_t i = 0; i < state.range(0); ++i) {
    const uint32_t length = mixed_length(random);
    const Match match = route(static_cast<uint32_t>(random()), length);
    rules.push_back({form.prefix_of(match)->key(), static_cast<uint16_t>(length), i});
  }
  const auto place = [](const PrefixRef& each) {
    return std::tuple(each.key.high, each.key.length);
  };
  std::sort(rules.begin(), rules.end(),
            [&](const PrefixRef& a, const PrefixRef& b) { return place(a) < place(b); });
  const auto twice = [&](const PrefixRef& a, const PrefixRef& b) { return a.key == b.key; };
  rules.erase(std::unique(rules.begin(), rules.end(), twice), rules.end());
  for (auto _ : state) {
    PrefixTable<2> table(form, defer_not);
    benchmark::DoNotOptimize(table.load(rules));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(rules.size()));
}
BENCHMARK(prefix_load)->Arg(10000)->Arg(100000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace::match

BENCHMARK_MAIN();
