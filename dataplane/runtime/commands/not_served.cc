// SPDX-License-Identifier: Apache-2.0
// Commands of ovs-vswitchd that have no meaning here or are served elsewhere: what to use instead.
#include <array>

#include "runtime/commands/commands.h"

namespace headrace::runtime {
namespace {

struct NotServed {
  const char* name;
  const char* instead;
};

constexpr const char* kNoCache =
    "there is no flow cache; `headrace switch tables` shows the tables that packets are looked up "
    "in, `ovs-ofctl dump-flows` their counts";
constexpr const char* kNoBonds = "there are no bonds; use a select group of the ports";
constexpr const char* kNoTrees =
    "there is no spanning tree; fast-failover groups and a controller find other paths";
constexpr const char* kNoMonitor =
    "links are not monitored; use link_state and fast-failover groups";
constexpr const char* kNoMulticast =
    "there is no multicast snooping; NORMAL floods groups, rules can send them elsewhere";
constexpr const char* kNoConntrack = "there is no connection tracking";
constexpr const char* kSeeRules = "use ovs-ofctl dump-flows";
constexpr const char* kSeeCycles = "use dpif-netdev/pmd-stats-show or `headrace switch cycles`";
constexpr const char* kSeeShow = "use ovs-vsctl show or `headrace switch show`";
constexpr const char* kSeeLog = "the log goes to stderr; use vlog/set, and your supervisor's tools";

constexpr std::array kNotServed = {
    NotServed{"bfd/show", kNoMonitor},
    NotServed{"bfd/set-forwarding", kNoMonitor},
    NotServed{"cfm/show", kNoMonitor},
    NotServed{"cfm/set-fault", kNoMonitor},
    NotServed{"bond/show", kNoBonds},
    NotServed{"bond/list", kNoBonds},
    NotServed{"bond/hash", kNoBonds},
    NotServed{"bond/migrate", kNoBonds},
    NotServed{"bond/enable-member", kNoBonds},
    NotServed{"bond/disable-member", kNoBonds},
    NotServed{"bond/set-active-member", kNoBonds},
    NotServed{"lacp/show", kNoBonds},
    NotServed{"lacp/show-stats", kNoBonds},
    NotServed{"stp/show", kNoTrees},
    NotServed{"stp/tcn", kNoTrees},
    NotServed{"rstp/show", kNoTrees},
    NotServed{"rstp/tcn", kNoTrees},
    NotServed{"lldp/show", "there is no LLDP; a controller speaks it by packet-outs"},
    NotServed{"mdb/show", kNoMulticast},
    NotServed{"mdb/flush", kNoMulticast},
    NotServed{"dpctl/show", kSeeShow},
    NotServed{"dpctl/dump-dps", kSeeShow},
    NotServed{"dpctl/dump-flows", kNoCache},
    NotServed{"dpctl/dump-conntrack", kNoConntrack},
    NotServed{"dpctl/flush-conntrack", kNoConntrack},
    NotServed{"dpif/show", kSeeShow},
    NotServed{"dpif/dump-dps", kSeeShow},
    NotServed{"dpif/dump-flows", kNoCache},
    NotServed{"dpif-netdev/pmd-perf-show", kSeeCycles},
    NotServed{"dpif-netdev/pmd-stats-clear", "counters only grow; take the difference of two"},
    NotServed{"dpif-netdev/pmd-rxq-rebalance",
              "queues are dealt when ports or workers change; pin them by pmd-rxq-affinity"},
    NotServed{"upcall/show", kNoCache},
    NotServed{"revalidator/purge", kNoCache},
    NotServed{"bridge/dump-flows", kSeeRules},
    NotServed{"bridge/reconnect", "use ovs-vsctl set-controller"},
    NotServed{"ofproto/list", kSeeShow},
    NotServed{"ofproto/trace-packet-out",
              "use ofproto/trace for what table 0 does with the packet"},
    NotServed{"fdb/add", "addresses are learned only; use a rule for eth_dst"},
    NotServed{"fdb/del", "use fdb/flush"},
    NotServed{"fdb/stats-show", "use fdb/show"},
    NotServed{"qos/show", "use ovs-ofctl queue-stats and ovs-vsctl list QoS"},
    NotServed{"ovs/route/show", "use ip route; tunnels show their next hop in Interface status"},
    NotServed{"tnl/neigh/show", "use ip neigh; tunnels show their next hop in Interface status"},
    NotServed{"memory/show", "use `headrace switch show` (buffers) and `headrace switch tables`"},
    NotServed{"vlog/reopen", kSeeLog},
    NotServed{"vlog/close", kSeeLog},
    NotServed{"vlog/list-pattern", kSeeLog},
    NotServed{"vlog/enable-rate-limit", kSeeLog},
    NotServed{"vlog/disable-rate-limit", kSeeLog},
};

}  // namespace

void add_not_served(unixctl::Commands& commands) {
  for (const NotServed& each : kNotServed) {
    commands.add({.name = each.name, .instead = each.instead});
  }
}

void add_commands(unixctl::Commands& commands, Switch& the_switch, std::function<void()> exit) {
  add_coverage_commands(commands, the_switch);
  add_fdb_commands(commands, the_switch);
  add_pmd_commands(commands, the_switch);
  add_trace_commands(commands, the_switch);
  add_vlog_commands(commands);
  add_not_served(commands);
  commands.add(
      {.name = "exit", .usage = "", .run = [exit = std::move(exit)](unixctl::Command::Arguments) {
         exit();
         return Result<std::string>("");
       }});
}

}  // namespace headrace::runtime
