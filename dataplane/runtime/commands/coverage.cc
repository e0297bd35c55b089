// SPDX-License-Identifier: Apache-2.0
// coverage/...: how often rare events happened: drops by reason, refused packet-ins, tables built
// anew. Totals; what an event means for a packet is in pipeline/terms/drop_reason.h.
#include <map>

#include "pipeline/terms/drop_reason.h"
#include "runtime/commands/commands.h"

namespace headrace::runtime {
namespace {

using Arguments = unixctl::Command::Arguments;
using Events = std::map<std::string, uint64_t, std::less<>>;

Events events_of(const Switch& the_switch) {
  Events events;
  for (size_t reason = 1; reason < pipeline::kDropReasons; ++reason) {
    events[fmt::format("drop_{}", name(static_cast<pipeline::DropReason>(reason)))] = 0;
  }
  uint64_t& rebuilds = events["table_rebuild"];
  uint64_t& punts_refused = events["packet_in_refused"];
  uint64_t& packet_outs = events["packet_out"];
  uint64_t& out_queue_full = events["drop_packet-out-queue-full"];
  uint64_t& out_no_buffer = events["drop_packet-out-no-buffer"];
  for (const auto& [bridge, lsi] : the_switch.lsis()) {
    const pipeline::DropCounts drops = lsi->lsi().drops();
    for (size_t reason = 1; reason < drops.size(); ++reason) {
      events[fmt::format("drop_{}", name(static_cast<pipeline::DropReason>(reason)))] +=
          drops[reason];
    }
    for (const pipeline::TableStats& table : lsi->lsi().table_stats()) rebuilds += table.rebuilds;
    out_queue_full += lsi->packet_out_drops().queue_full;
    out_no_buffer += lsi->packet_out_drops().no_buffer;
  }
  for (const auto& worker : the_switch.workers().workers()) {
    punts_refused += worker->punts().refused();
    packet_outs += worker->counters().packet_outs.read();
  }
  return events;
}

Result<std::string> show(const Switch& the_switch) {
  std::string text = "Event coverage, totals of the bridges and pmd threads that there are:\n";
  size_t never = 0;
  for (const auto& [event, count] : events_of(the_switch)) {
    if (count == 0) {
      ++never;
    } else {
      text += fmt::format("{:<28} total: {}\n", event, count);
    }
  }
  return text + fmt::format("{} events never hit\n", never);
}

Result<std::string> read_counter(const Switch& the_switch, const std::string& counter) {
  const Events events = events_of(the_switch);
  const auto found = events.find(counter);
  if (found == events.end()) return fail("No such counter");
  return fmt::format("{}\n", found->second);
}

}  // namespace

void add_coverage_commands(unixctl::Commands& commands, Switch& the_switch) {
  commands.add({.name = "coverage/show", .usage = "", .run = [&the_switch](Arguments) {
                  return show(the_switch);
                }});
  commands.add({.name = "coverage/read-counter",
                .usage = "COUNTER",
                .min_arguments = 1,
                .max_arguments = 1,
                .run = [&the_switch](Arguments arguments) {
                  return read_counter(the_switch, arguments[0]);
                }});
}

}  // namespace headrace::runtime
