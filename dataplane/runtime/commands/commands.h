// SPDX-License-Identifier: Apache-2.0
// What headrace-switch answers to ovs-appctl: commands by topic, one file for each.
//
// Names, arguments and layout are those of Open vSwitch, so that scripts and habits hold; what only
// OVS has (caches, megaflows) is not made up. Commands of OVS that are not served are known, and
// their errors name the alternative (not_served.cc).
//
// Thread safety: control thread. No command waits for a worker.
#pragma once

#include <functional>

#include "runtime/switch/switch.h"
#include "unixctl/command.h"

namespace headrace::runtime {

/// Adds all of them. `the_switch` must outlive the commands; `exit` is what `exit` calls.
void add_commands(unixctl::Commands& commands, Switch& the_switch, std::function<void()> exit);

// Each adds those of one topic.
void add_coverage_commands(unixctl::Commands& commands, Switch& the_switch);
void add_fdb_commands(unixctl::Commands& commands, Switch& the_switch);
void add_pmd_commands(unixctl::Commands& commands, Switch& the_switch);
void add_trace_commands(unixctl::Commands& commands, Switch& the_switch);
void add_vlog_commands(unixctl::Commands& commands);
void add_not_served(unixctl::Commands& commands);

}  // namespace headrace::runtime
