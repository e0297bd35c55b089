// SPDX-License-Identifier: Apache-2.0
// Classifiers on rules as access lists and firewalls have them (acl_rules.h), beside DPDK's
// rte_acl on the same rules and packets: TSC cycles per packet, memory, time to build, changes per
// second.
//
//     match_acl_bench [--kinds=planned,tuple-space] [--only=acl] [--rules=1000,10000] [--changes]
//                     [--simd=avx2] [--no-rte-acl]
//
// Bursts of 32 are made outside the timed part: FlowKeys for ours, five-tuples for rte_acl. Both
// are timed in turns of some hundred bursts, so that what the machine does else meets both; a
// figure is the median of the turns' medians, the spread their quartiles. rte_acl gets ranges of
// ports as ranges, ours as the matches that a controller expands them to. rte_acl is tried with
// every method that it has on this processor and the fastest is shown. A structure that finds a
// rule of another priority than rte_acl, by the first packets of the trace, is reported.
#include <fmt/format.h>
#include <rte_acl.h>
#include <rte_cycles.h>
#include <rte_eal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "match/fields/simd.h"
#include "match/structures/acl_rules.h"
#include "match/structures/classifier.h"
#include "match/structures/classifier_kind.h"
#include "match/table/planner.h"
#include "packet/bytes.h"

namespace headrace::match {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kTrace = 1 << 17;
constexpr int kTurns = 15;
constexpr size_t kBurstsPerTurn = 600;
/// Above it, rte_acl splits rules into more tries; tables of this size are not measured.
constexpr size_t kMostBytes = size_t{1} << 30;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double share) {
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<long>(at), values.end());
  return values[at];
}

/// The packets' keys as rte_acl reads them.
struct Tuple4 {
  uint8_t protocol;
  uint8_t pad[3];
  uint8_t source[4];
  uint8_t destination[4];
  uint8_t ports[4];
};
struct Tuple6 {
  uint8_t protocol;
  uint8_t pad[3];
  uint8_t source[16];
  uint8_t destination[16];
  uint8_t ports[4];
};

template <typename Tuple>
void fill_tuple(const AclPacket& packet, uint8_t* to) {
  Tuple tuple{};
  tuple.protocol = packet.protocol;
  std::memcpy(tuple.source, packet.source.data(), sizeof tuple.source);
  std::memcpy(tuple.destination, packet.destination.data(), sizeof tuple.destination);
  if (packet.protocol == 6 || packet.protocol == 17) {
    packet::store_be16(tuple.ports, packet.source_port);
    packet::store_be16(tuple.ports + 2, packet.destination_port);
  }
  std::memcpy(to, &tuple, sizeof tuple);
}

/// DPDK's classifier with one set of rules.
class RteAcl {
 public:
  RteAcl(const std::vector<AclRule>& rules, bool ipv6) : ipv6_(ipv6) {
    const size_t words = ipv6 ? 4 : 1;
    const auto fields = static_cast<uint32_t>(3 + 2 * words);
    rte_acl_config config{};
    config.num_categories = 1;
    config.num_fields = fields;
    config.max_size = kMostBytes;
    config.defs[0] = {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, 0};
    for (uint32_t w = 0; w < 2 * words; ++w) {
      config.defs[1 + w] = {RTE_ACL_FIELD_TYPE_MASK, 4, static_cast<uint8_t>(1 + w),
                            static_cast<uint8_t>(1 + w), 4 + 4 * w};
    }
    const auto last = static_cast<uint8_t>(1 + 2 * words);
    const uint32_t ports = 4 + 8 * static_cast<uint32_t>(words);
    config.defs[last] = {RTE_ACL_FIELD_TYPE_RANGE, 2, last, last, ports};
    config.defs[last + 1] = {RTE_ACL_FIELD_TYPE_RANGE, 2, static_cast<uint8_t>(last + 1), last,
                             ports + 2};
    rte_acl_param param{};
    param.name = "bench";
    param.rule_size = RTE_ACL_RULE_SZ(fields);
    param.max_rule_num = static_cast<uint32_t>(rules.size());
    context_ = rte_acl_create(&param);
    if (context_ == nullptr) {
      error_ = "rte_acl_create failed";
      return;
    }
    std::vector<uint8_t> memory(param.rule_size);
    for (size_t i = 0; i < rules.size(); ++i) {
      std::fill(memory.begin(), memory.end(), uint8_t{0});
      auto* data = reinterpret_cast<rte_acl_rule_data*>(memory.data());
      auto* field = reinterpret_cast<rte_acl_field*>(memory.data() + offsetof(rte_acl_rule, field));
      data->category_mask = 1;
      data->priority = 1 + rules[i].priority;
      data->userdata = static_cast<uint32_t>(i + 1);
      field[0].value.u8 = rules[i].protocol.value_or(0);
      field[0].mask_range.u8 = rules[i].protocol.has_value() ? 0xff : 0;
      for (size_t w = 0; w < words; ++w) {
        set_prefix(field[1 + w], rules[i].source, w);
        set_prefix(field[1 + words + w], rules[i].destination, w);
      }
      set_range(field[last], rules[i].source_port);
      set_range(field[last + 1], rules[i].destination_port);
      if (rte_acl_add_rules(context_, reinterpret_cast<const rte_acl_rule*>(memory.data()), 1)) {
        error_ = "rte_acl_add_rules failed";
        return;
      }
    }
    const Clock::time_point start = Clock::now();
    const int failed = rte_acl_build(context_, &config);
    build_seconds_ = seconds_since(start);
    if (failed != 0) error_ = fmt::format("rte_acl_build: {}", std::strerror(-failed));
  }
  RteAcl(const RteAcl&) = delete;
  RteAcl& operator=(const RteAcl&) = delete;
  ~RteAcl() { rte_acl_free(context_); }

  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] double build_seconds() const { return build_seconds_; }

  /// Chooses a method; false if this processor or build lacks it.
  bool choose(enum rte_acl_classify_alg method) {
    return rte_acl_set_ctx_classify(context_, method) == 0;
  }

  void prepare(const AclPacket* packets) {
    for (size_t i = 0; i < kBurst; ++i) {
      keys_[i] = memory_[i].data();
      if (ipv6_) {
        fill_tuple<Tuple6>(packets[i], memory_[i].data());
      } else {
        fill_tuple<Tuple4>(packets[i], memory_[i].data());
      }
    }
  }
  void look_up(uint32_t* results) { rte_acl_classify(context_, keys_.data(), results, kBurst, 1); }

 private:
  static void set_prefix(rte_acl_field& field, const AclPrefix& prefix, size_t w) {
    const auto before = static_cast<int>(32 * w);
    field.value.u32 = packet::load_be32(prefix.address.data() + 4 * w);
    field.mask_range.u32 = static_cast<uint32_t>(std::clamp(prefix.length - before, 0, 32));
  }
  static void set_range(rte_acl_field& field, const PortRange& range) {
    field.value.u16 = range.first;
    field.mask_range.u16 = range.last;
  }

  bool ipv6_;
  rte_acl_ctx* context_{nullptr};
  std::string error_;
  double build_seconds_{0};
  std::array<const uint8_t*, kBurst> keys_{};
  alignas(64) std::array<std::array<uint8_t, 48>, kBurst> memory_{};
};

/// One of ours with the same rules.
class Ours {
 public:
  Ours(const std::vector<RuleRef>& rules, const ClassifierKind* kind) {
    const Clock::time_point start = Clock::now();
    if (kind == nullptr) {
      Plan plan;
      table_ = build(rules, defer_not, plan);
      name_ = plan.kind->name;
    } else {
      const std::optional<Fit> fit = kind->plan(rules);
      if (fit.has_value()) table_ = fit->build(defer_not);
      name_ = kind->name;
    }
    build_seconds_ = seconds_since(start);
  }
  [[nodiscard]] bool built() const { return table_ != nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] double build_seconds() const { return build_seconds_; }
  [[nodiscard]] Classifier& table() { return *table_; }

  void prepare(const AclPacket* packets) {
    for (size_t i = 0; i < kBurst; ++i) packets[i].fill(burst_[i]);
  }
  void look_up(uint32_t* results) { table_->lookup(burst_.data(), active_, results, kAllWords); }

 private:
  static constexpr std::array<uint8_t, kBurst> kAll = [] {
    std::array<uint8_t, kBurst> all{};
    for (size_t i = 0; i < kBurst; ++i) all[i] = static_cast<uint8_t>(i);
    return all;
  }();

  std::unique_ptr<Classifier> table_;
  std::string name_;
  double build_seconds_{0};
  std::array<FlowKey, kBurst> burst_{};
  std::span<const uint8_t> active_{kAll};
};

/// The median of one turn, in cycles per packet; the trace goes on where the last turn ended.
template <typename Table>
double turn(Table& table, const std::vector<AclPacket>& trace, size_t& at) {
  uint32_t results[kBurst];
  std::vector<double> cycles;
  for (size_t i = 0; i < kBurstsPerTurn; ++i) {
    at = (at + kBurst) % trace.size();
    table.prepare(&trace[at]);
    const uint64_t start = rte_rdtsc_precise();
    table.look_up(results);
    const uint64_t end = rte_rdtsc_precise();
    cycles.push_back(static_cast<double>(end - start) / kBurst);
  }
  return quantile(cycles, 0.5);
}

struct Case {
  AclFamily family;
  size_t rules;
  bool ipv6;
};

struct Options {
  std::vector<std::string> kinds{"planned"};
  std::string only{};
  std::vector<size_t> sizes{1000, 10000, 100000};
  std::optional<Simd> simd{Simd::avx512};  ///< at most; nothing: a name that there is not
  bool changes{false};
  bool yardstick{true};
};

/// The rules of a case in both forms.
struct Rules {
  std::vector<AclRule> tuples;
  std::vector<Match> matches;
  std::vector<RuleRef> refs;   ///< of `matches`, index = position + 1
  std::vector<uint32_t> from;  ///< by position: the rule that it is of

  explicit Rules(const Case& which) : tuples(acl_rules(which.family, which.rules, which.ipv6, 1)) {
    for (uint32_t i = 0; i < tuples.size(); ++i) {
      for (Match& match : matches_of(tuples[i])) {
        matches.push_back(std::move(match));
        from.push_back(i);
      }
    }
    for (uint32_t i = 0; i < matches.size(); ++i) {
      refs.push_back({&matches[i], tuples[from[i]].priority, i + 1});
    }
  }
};

/// How many of the trace's first packets get rules of another priority from ours than from rte_acl.
size_t differences(Ours& ours, RteAcl& yardstick, const Rules& rules,
                   const std::vector<AclPacket>& trace) {
  size_t different = 0;
  const size_t packets = std::min<size_t>(trace.size(), 8192);
  for (size_t at = 0; at < packets; at += kBurst) {
    uint32_t mine[kBurst];
    uint32_t theirs[kBurst];
    ours.prepare(&trace[at]);
    ours.look_up(mine);
    yardstick.prepare(&trace[at]);
    yardstick.look_up(theirs);
    for (size_t i = 0; i < kBurst; ++i) {
      const int a = mine[i] == kMiss ? -1 : rules.tuples[rules.from[mine[i] - 1]].priority;
      const int b = theirs[i] == 0 ? -1 : rules.tuples[theirs[i] - 1].priority;
      different += a != b ? 1 : 0;
    }
  }
  return different;
}

/// Rules removed and added again one by one, in place, at random; per second.
double changes_per_second(Classifier& table, const Rules& rules) {
  std::mt19937 random(7);
  constexpr size_t kChanges = 20000;
  const Clock::time_point start = Clock::now();
  for (size_t i = 0; i < kChanges / 2; ++i) {
    const RuleRef& rule = rules.refs[random() % rules.refs.size()];
    if (!table.erase(*rule.match, rule.priority)) std::abort();
    if (!table.insert(*rule.match, rule.priority, rule.index)) return 0;
  }
  return kChanges / seconds_since(start);
}

/// The fastest method for this context, by one turn each.
std::string choose_method(RteAcl& yardstick, const std::vector<AclPacket>& trace) {
  constexpr std::pair<enum rte_acl_classify_alg, const char*> kMethods[] = {
      {RTE_ACL_CLASSIFY_SSE, "sse"},
      {RTE_ACL_CLASSIFY_AVX2, "avx2"},
      {RTE_ACL_CLASSIFY_AVX512X16, "avx512x16"},
      {RTE_ACL_CLASSIFY_AVX512X32, "avx512x32"}};
  std::string best = "scalar";
  enum rte_acl_classify_alg best_method = RTE_ACL_CLASSIFY_SCALAR;
  double least = 1e9;
  for (const auto& [method, name] : kMethods) {
    if (!yardstick.choose(method)) continue;
    size_t at = 0;
    turn(yardstick, trace, at);
    const double cycles = turn(yardstick, trace, at);
    if (cycles >= least) continue;
    least = cycles;
    best = name;
    best_method = method;
  }
  yardstick.choose(best_method);
  return best;
}

void run(const Case& which, const Options& options) {
  const Rules rules(which);
  const std::string title =
      fmt::format("{}{} {}", acl_seed(which.family).name, which.ipv6 ? "6" : "", which.rules);
  std::unique_ptr<RteAcl> yardstick;
  if (options.yardstick) {
    yardstick = std::make_unique<RteAcl>(rules.tuples, which.ipv6);
    if (!yardstick->error().empty()) {
      fmt::print("{:<12} rte_acl skipped: {}\n", title, yardstick->error());
      yardstick.reset();
    }
  }
  for (const std::string& wanted : options.kinds) {
    const ClassifierKind* kind = nullptr;
    for (const ClassifierKind* each : classifier_kinds()) {
      if (each->name == wanted) kind = each;
    }
    Ours ours(rules.refs, kind);
    if (!ours.built()) {
      fmt::print("{:<12} {} takes no such rules\n", title, ours.name());
      continue;
    }
    for (const bool zipf : {false, true}) {
      const std::vector<AclPacket> trace = acl_trace(rules.tuples, kTrace, zipf, 3);
      const std::string method = yardstick ? choose_method(*yardstick, trace) : "";
      const size_t different = yardstick ? differences(ours, *yardstick, rules, trace) : 0;
      std::vector<double> mine;
      std::vector<double> theirs;
      std::vector<double> ratios;
      size_t at = 0;
      for (int i = 0; i < kTurns; ++i) {
        mine.push_back(turn(ours, trace, at));
        if (!yardstick) continue;
        theirs.push_back(turn(*yardstick, trace, at));
        ratios.push_back(mine.back() / theirs.back());
      }
      fmt::print(
          "{:<12} {:>7} matches  {:<6} {:<11} {:6.1f} ({:.1f}..{:.1f}) cycles  {:6.1f} MiB"
          "  built {:.2f} s",
          title, rules.matches.size(), zipf ? "zipf" : "even", ours.name(), quantile(mine, 0.5),
          quantile(mine, 0.25), quantile(mine, 0.75),
          static_cast<double>(ours.table().memory_bytes()) / (1 << 20), ours.build_seconds());
      if (yardstick) {
        fmt::print("  rte_acl {} {:6.1f} built {:.2f} s  ratio {:.2f} ({:.2f}..{:.2f})", method,
                   quantile(theirs, 0.5), yardstick->build_seconds(), quantile(ratios, 0.5),
                   quantile(ratios, 0.25), quantile(ratios, 0.75));
        if (different != 0) fmt::print("  {} DIFFERENT", different);
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
    if (options.changes) {
      fmt::print("{:<12} {} changes/s in place\n", title,
                 static_cast<long>(changes_per_second(ours.table(), rules)));
    }
  }
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char each : list) {
    if (each == ',') {
      parts.emplace_back();
    } else {
      parts.back() += each;
    }
  }
  return parts;
}

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::string value = argument.substr(std::min(argument.size(), argument.find('=') + 1));
    if (argument.rfind("--kinds=", 0) == 0) options.kinds = parts_of(value);
    if (argument.rfind("--only=", 0) == 0) options.only = value;
    if (argument == "--changes") options.changes = true;
    if (argument.rfind("--simd=", 0) == 0) options.simd = simd_named(value);
    if (argument == "--no-rte-acl") options.yardstick = false;
    if (argument.rfind("--rules=", 0) == 0) {
      options.sizes.clear();
      for (const std::string& each : parts_of(value)) options.sizes.push_back(std::stoul(each));
    }
  }
  return options;
}

int main_of(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  if (!options.simd.has_value()) {
    fmt::print(stderr, "match_acl_bench: --simd= takes portable, avx2 or avx512\n");
    return 2;
  }
  set_simd(*options.simd);
  const char* const eal[] = {"match_acl_bench", "--in-memory",   "--no-pci",
                             "--no-telemetry",  "--log-level=4", "--force-max-simd-bitwidth=512"};
  std::vector<char*> arguments;
  for (const char* each : eal) arguments.push_back(const_cast<char*>(each));
  if (rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) < 0) return 1;
  for (const bool ipv6 : {false, true}) {
    for (const size_t size : options.sizes) {
      if (ipv6 && size != 10000) continue;
      for (const AclFamily family : {AclFamily::acl, AclFamily::fw, AclFamily::ipc}) {
        const std::string name = fmt::format("{}{}", acl_seed(family).name, ipv6 ? "6" : "");
        if (options.only.empty() || options.only == name) run({family, size, ipv6}, options);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace headrace::match

int main(int argc, char** argv) {
  return headrace::match::main_of(argc, argv);
}
