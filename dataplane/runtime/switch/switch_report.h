// SPDX-License-Identifier: Apache-2.0
// What the switch reports on its control socket: show, tables, drops, cycles. Reading it costs the
// workers nothing: all comes from counters that they write anyway.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/switch/switch.h"

namespace headrace::runtime {

/// LSIs with their ports, counters and controllers; workers with the queues that they poll.
nlohmann::json report_show(const Switch& the_switch);
/// Per LSI its tables that hold rules: how many, which structure they were compiled to and why, of
/// how many masks, its memory, how often it was built anew, lookups and matches.
nlohmann::json report_tables(const Switch& the_switch);
/// Per LSI the packets dropped by each reason (those that are not zero), the same by worker, and
/// what its devices lost.
nlohmann::json report_drops(const Switch& the_switch);
/// Per worker its busy, idle and sleep cycles, rounds and packets, and, once stage timing was on,
/// the cycles of each stage with the packets that they were spent on; per LSI those of each table
/// and worker.
nlohmann::json report_cycles(const Switch& the_switch);
/// Per port that could be linked directly what goes past the switch, or why nothing does.
nlohmann::json report_links(Switch& the_switch);

}  // namespace headrace::runtime
