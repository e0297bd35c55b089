// SPDX-License-Identifier: Apache-2.0
// What the rows of many bridges cost the control thread: a change of one of them until its status
// is written back, and the look at all of their status that is taken twice a second. The switch is
// a fake, so what it takes to do a change and to look at a port is not in it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>

#include "ovsdb/fake_switch.h"
#include "ovsdb/reconciler.h"
#include "ovsdb/status_writer.h"
#include "ovsdb/test_rows.h"

namespace headrace::ovsdb {
namespace {

/// A session's part: rows, what is made of them, and what is written back.
class Session {
 public:
  explicit Session(int64_t bridges) {
    Json tables = Json::object();
    for (int64_t bridge = 0; bridge < bridges; ++bridge) {
      add_bridge(tables, bridge);
    }
    add_root(tables, bridges, 1);
    change(tables);
  }

  /// Applies a notification and says what is to be written.
  Json change(const Json& tables) {
    const auto applied = database_.apply(tables);
    const auto desired = applied ? reader_.read(database_) : fail("{}", applied.error().message);
    if (!desired) {
      fmt::print(stderr, "{}\n", desired.error().message);
      std::abort();
    }
    reconciler_.apply(*desired);
    return look();
  }

  Json look() {
    writer_.drop(reconciler_.take_gone());
    return writer_.operations(reconciler_.changed_status());
  }

 private:
  FakeSwitch switch_;
  Reconciler reconciler_{switch_};
  StatusWriter writer_;
  Database database_;
  DesiredReader reader_;
};

void change_of_a_port(benchmark::State& state) {
  Session session(state.range(0));
  int64_t mtu = 1500;
  for (auto _ : state) {
    Json tables = Json::object();
    tables["Interface"][uuid_of(3, 0, 1)] = interface_row(0, 1, ++mtu % 9000);
    benchmark::DoNotOptimize(session.change(tables));
  }
}
BENCHMARK(change_of_a_port)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

void look_at_the_status(benchmark::State& state) {
  Session session(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(session.look());
}
BENCHMARK(look_at_the_status)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace headrace::ovsdb

BENCHMARK_MAIN();
