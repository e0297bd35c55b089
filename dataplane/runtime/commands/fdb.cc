// SPDX-License-Identifier: Apache-2.0
// fdb/...: the MAC addresses that NORMAL has learned.
#include <algorithm>
#include <tuple>

#include "packet/mac_address.h"
#include "runtime/commands/commands.h"

namespace headrace::runtime {
namespace {

using Arguments = unixctl::Command::Arguments;

Result<std::string> show(const Switch& the_switch, Arguments arguments) {
  const SwitchLsi* lsi = the_switch.find(arguments[0]);
  if (lsi == nullptr) return fail("no such bridge");
  std::vector<pipeline::LearnedMac> macs = lsi->lsi().learned_macs();
  std::sort(macs.begin(), macs.end(), [](const auto& a, const auto& b) {
    return std::tie(a.port, a.vlan, a.mac) < std::tie(b.port, b.vlan, b.mac);
  });
  std::string text = " port  VLAN  MAC                Age\n";
  for (const pipeline::LearnedMac& each : macs) {
    const std::string port =
        each.port == pipeline::kPortLocal ? "LOCAL" : std::to_string(each.port);
    text += fmt::format("{:>5}  {:>4}  {:02x}  {:>3}\n", port, each.vlan, fmt::join(each.mac, ":"),
                        each.age);
  }
  return text;
}

Result<std::string> flush(const Switch& the_switch, Arguments arguments) {
  if (!arguments.empty() && the_switch.find(arguments[0]) == nullptr) {
    return fail("no such bridge");
  }
  for (const auto& [name, lsi] : the_switch.lsis()) {
    if (arguments.empty() || name == arguments[0]) lsi->lsi().forget_macs();
  }
  return "table successfully flushed";
}

}  // namespace

void add_fdb_commands(unixctl::Commands& commands, Switch& the_switch) {
  commands.add({.name = "fdb/show",
                .usage = "bridge",
                .min_arguments = 1,
                .max_arguments = 1,
                .run = [&the_switch](Arguments arguments) { return show(the_switch, arguments); }});
  commands.add(
      {.name = "fdb/flush",
       .usage = "[bridge]",
       .max_arguments = 1,
       .run = [&the_switch](Arguments arguments) { return flush(the_switch, arguments); }});
}

}  // namespace headrace::runtime
