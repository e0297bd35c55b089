// SPDX-License-Identifier: Apache-2.0
// dpif-netdev/pmd-...: what the workers do, in the layout of OVS's userspace datapath.
//
// OVS's lines about its caches and megaflows are left out: a worker here has none.
#include <rte_lcore.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "runtime/commands/commands.h"

namespace headrace::runtime {
namespace {

using Arguments = unixctl::Command::Arguments;

struct Selection {
  std::optional<unsigned> core;
};

/// [-pmd core] [-secs secs] [dp]
Result<Selection> parse(Arguments arguments) {
  Selection selection;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-pmd" || word == "-secs") {
      unsigned number = 0;
      const std::string value = i + 1 < arguments.size() ? arguments[++i] : "";
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
      if (value.empty() || parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) {
        return fail("{}: give a number", word);
      }
      if (word == "-pmd") selection.core = number;
    } else if (word != "ovs-netdev" && word != "netdev@ovs-netdev") {
      return fail("{}: please specify an existing datapath: there is one, netdev@ovs-netdev", word);
    }
  }
  return selection;
}

std::string heading(const Worker& worker) {
  return fmt::format("pmd thread numa_id {} core_id {}:\n", rte_lcore_to_socket_id(worker.cpu()),
                     worker.cpu());
}

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string stats_of(Worker& worker) {
  const WorkerCounters& counters = worker.counters();
  const uint64_t busy = counters.busy_cycles.read();
  const uint64_t idle = counters.idle_cycles.read();
  const uint64_t total = busy + idle;
  const uint64_t packets = counters.packets.read();
  std::string text = heading(worker);
  text += fmt::format("  packets received: {}\n", packets);
  text += fmt::format("  packet-outs: {}\n", counters.packet_outs.read());
  text += fmt::format("  packet-ins refused: {}\n", worker.punts().refused());
  text += fmt::format("  iterations: {}  (busy: {})\n", counters.rounds.read(),
                      counters.busy_rounds.read());
  text += fmt::format("  idle cycles: {} ({:.2f}%)\n", idle, percent(idle, total));
  text += fmt::format("  sleep cycles: {} ({:.2f}%)\n", counters.sleep_cycles.read(),
                      percent(counters.sleep_cycles.read(), total));
  text += fmt::format("  processing cycles: {} ({:.2f}%)\n", busy, percent(busy, total));
  if (packets != 0) {
    const auto each = static_cast<double>(packets);
    text += fmt::format("  avg cycles per packet: {:.2f} ({}/{})\n",
                        static_cast<double>(total) / each, total, packets);
    text += fmt::format("  avg processing cycles per packet: {:.2f} ({}/{})\n",
                        static_cast<double>(busy) / each, busy, packets);
  }
  return text;
}

std::string queues_of(const WorkerPool& pool, std::optional<size_t> worker) {
  std::string text;
  for (const RxQueue& queue : pool.queues()) {
    if (queue.worker != worker) continue;
    const QueueCounters& counters = *queue.entry.counters;
    text += fmt::format(
        "  port: {:<16}  queue-id: {:>2} ({})   pmd usage: {:>2.0f} %  packets: {}  bursts: {}\n",
        queue.port, queue.entry.queue, worker ? "enabled" : "disabled", 100 * pool.load(queue),
        counters.packets.read(), counters.bursts.read());
  }
  return text;
}

/// What the worker was busy with besides its queues: packet-outs, schedulers, what others handed
/// it; and what sampling of the queues leaves.
double overhead_of(const WorkerPool& pool, size_t worker) {
  double rest = pool.busy_share(worker);
  std::set<const void*> counted;  // queues of one group have their load together
  for (const RxQueue& queue : pool.queues()) {
    if (queue.worker != worker) continue;
    if (queue.group != nullptr && !counted.insert(queue.group).second) continue;
    rest -= pool.load(queue);
  }
  return std::max(rest, 0.0);
}

/// Whether a queue is pinned to the worker: OVS then gives it no others, while here the worker
/// keeps its share.
bool is_isolated(const WorkerPool& pool, size_t worker) {
  bool any = false;
  for (const RxQueue& queue : pool.queues()) {
    if (queue.worker != worker) continue;
    if (!queue.affinity) return false;
    any = true;
  }
  return any;
}

template <typename Describe>
Result<std::string> for_each_worker(const Switch& the_switch, Arguments arguments,
                                    Describe&& describe) {
  const Result<Selection> selection = parse(arguments);
  if (!selection) return tl::unexpected(selection.error());
  std::string text;
  const auto workers = the_switch.workers().workers();
  for (size_t i = 0; i < workers.size(); ++i) {
    if (selection->core && *selection->core != workers[i]->cpu()) continue;
    text += describe(*workers[i], i);
  }
  return text;
}

Result<std::string> show_stats(const Switch& the_switch, Arguments arguments) {
  return for_each_worker(the_switch, arguments,
                         [](Worker& worker, size_t) { return stats_of(worker); });
}

Result<std::string> show_queues(const Switch& the_switch, Arguments arguments) {
  const WorkerPool& pool = the_switch.workers();
  Result<std::string> text =
      for_each_worker(the_switch, arguments, [&pool](const Worker& worker, size_t i) {
        return fmt::format("{}  isolated : {}\n{}  overhead: {:>2.0f} %\n", heading(worker),
                           is_isolated(pool, i) ? "true" : "false", queues_of(pool, i),
                           100 * overhead_of(pool, i));
      });
  if (!text) return text;
  text->insert(0, "Displaying last 60 seconds pmd usage %\n");
  const std::string unpolled = queues_of(pool, std::nullopt);
  if (!unpolled.empty()) *text += "no pmd thread (see Interface error):\n" + unpolled;
  return text;
}

}  // namespace

void add_pmd_commands(unixctl::Commands& commands, Switch& the_switch) {
  commands.add(
      {.name = "dpif-netdev/pmd-stats-show",
       .usage = "[-pmd core] [dp]",
       .max_arguments = 3,
       .run = [&the_switch](Arguments arguments) { return show_stats(the_switch, arguments); }});
  commands.add(
      {.name = "dpif-netdev/pmd-rxq-show",
       .usage = "[-pmd core] [dp]",
       .max_arguments = 3,
       .run = [&the_switch](Arguments arguments) { return show_queues(the_switch, arguments); }});
}

}  // namespace headrace::runtime
