// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/switch_report.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <array>
#include <utility>

#include "match/fields/simd.h"
#include "pipeline/terms/drop_reason.h"

namespace headrace::runtime {

using nlohmann::json;

namespace {

json port_json(const SwitchLsi& lsi, const SwitchPort& port) {
  const ovsdb::PortState state = lsi.port_state(port);
  return {{"name", port.spec.name},        {"ofport", port.spec.number},
          {"type", port.spec.type},        {"options", port.spec.options},
          {"admin_up", state.admin_up},    {"link_up", state.link_up},
          {"mac", state.mac.value_or("")}, {"mtu", state.mtu ? json(*state.mtu) : json()},
          {"status", state.status},        {"counters", lsi.port_statistics(port)}};
}

json controllers_json(const SwitchLsi& lsi) {
  json controllers = json::array();
  for (const auto& [target, state] : lsi.controller_states()) {
    controllers.push_back({{"target", target},
                           {"is_connected", state.is_connected},
                           {"role", state.role ? json(*state.role) : json()},
                           {"status", state.status}});
  }
  return controllers;
}

json queues_json(const WorkerPool& pool, std::optional<size_t> worker) {
  json queues = json::array();
  for (const RxQueue& queue : pool.queues()) {
    if (queue.worker != worker) continue;
    const QueueCounters& counters = *queue.entry.counters;
    queues.push_back({{"port", queue.port},
                      {"queue", queue.entry.queue},
                      {"load", pool.load(queue)},
                      {"packets", counters.packets.read()},
                      {"bursts", counters.bursts.read()},
                      {"full_bursts", counters.full_bursts.read()}});
  }
  return queues;
}

json drops_json(const pipeline::DropCounts& counts) {
  json drops = json::object();
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    drops[std::string(pipeline::name(static_cast<pipeline::DropReason>(i)))] = counts[i];
  }
  return drops;
}

}  // namespace

json report_show(const Switch& the_switch) {
  json lsis = json::array();
  for (const auto& [name, lsi] : the_switch.lsis()) {
    json ports = json::array();
    for (const auto& [port_name, port] : lsi->ports()) ports.push_back(port_json(*lsi, *port));
    json mirrors = json::array();
    for (const auto& [id, stats] : lsi->lsi().mirror_stats()) {
      mirrors.push_back({{"name", stats.name}, {"packets", stats.packets}, {"bytes", stats.bytes}});
    }
    lsis.push_back({{"name", name},
                    {"id", lsi->id()},
                    {"datapath_id", fmt::format("{:016x}", lsi->config().datapath_id)},
                    {"fail_mode",
                     lsi->config().fail_mode == ovsdb::FailMode::secure ? "secure" : "standalone"},
                    {"ports", std::move(ports)},
                    {"mirrors", std::move(mirrors)},
                    {"controllers", controllers_json(*lsi)}});
  }
  json workers = json::array();
  const WorkerPool& pool = the_switch.workers();
  for (size_t i = 0; i < pool.workers().size(); ++i) {
    workers.push_back({{"number", pool.workers()[i]->number()},
                       {"cpu", pool.workers()[i]->cpu()},
                       {"queues", queues_json(pool, i)}});
  }
  json buffers = json::array();
  for (rte_mempool* pool : the_switch.pools().all()) {
    buffers.push_back({{"pool", pool->name},
                       {"size", pool->size},
                       {"in_use", rte_mempool_in_use_count(pool)},
                       {"data_size", rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM}});
  }
  return {
      {"lsis", std::move(lsis)},           {"workers", std::move(workers)},
      {"rxq_assign", name(pool.policy())}, {"simd", name(match::simd())},
      {"buffers", std::move(buffers)},     {"unpolled_queues", queues_json(pool, std::nullopt)}};
}

json report_tables(const Switch& the_switch) {
  json lsis = json::array();
  for (const auto& [name, lsi] : the_switch.lsis()) {
    json tables = json::array();
    for (const pipeline::TableStats& table : lsi->lsi().table_stats()) {
      // Table 0 sees every packet, with or without rules.
      if (table.active == 0 && table.table_id != 0) continue;
      tables.push_back({{"table_id", table.table_id},
                        {"rules", table.active},
                        {"structure", table.structure},
                        {"reason", table.reason},
                        {"masks", table.masks},
                        {"memory_bytes", table.memory_bytes},
                        {"rebuilds", table.rebuilds},
                        {"lookups", table.lookups},
                        {"matched", table.matched}});
    }
    lsis.push_back({{"name", name}, {"tables", std::move(tables)}});
  }
  return {{"lsis", std::move(lsis)}};
}

json report_drops(const Switch& the_switch) {
  json lsis = json::array();
  for (const auto& [name, lsi] : the_switch.lsis()) {
    json by_worker = json::object();
    for (unsigned worker = 0; worker < pipeline::kMaxWorkers; ++worker) {
      json own = drops_json(lsi->lsi().drops(worker));
      if (!own.empty()) by_worker[std::to_string(worker)] = std::move(own);
    }
    json ports = json::object();
    for (const auto& [port_name, port] : lsi->ports()) {
      const auto statistics = lsi->port_statistics(*port);
      json lost = json::object();
      for (const char* key : {"rx_dropped", "tx_dropped", "rx_errors", "tx_errors",
                              "rx_missed_errors", "rx_no_buffer_errors"}) {
        const auto found = statistics.find(key);
        if (found != statistics.end() && found->second != 0) lost[key] = found->second;
      }
      if (!lost.empty()) ports[port_name] = std::move(lost);
    }
    json total = drops_json(lsi->lsi().drops());
    json control = json::object();
    const PacketOutDrops& outs = lsi->packet_out_drops();
    const std::array<std::pair<const char*, uint64_t>, 2> counts{
        {{"packet-out-queue-full", outs.queue_full}, {"no-buffer", outs.no_buffer}}};
    for (const auto& [reason, packets] : counts) {
      if (packets == 0) continue;
      control[reason] = packets;
      total[reason] = total.value(reason, uint64_t{0}) + packets;
    }
    lsis.push_back({{"name", name},
                    {"drops", std::move(total)},
                    {"workers", std::move(by_worker)},
                    {"control", std::move(control)},
                    {"ports", std::move(ports)}});
  }
  return {{"lsis", std::move(lsis)}};
}

json report_links(Switch& the_switch) {
  json links = json::array();
  for (const LinkReport& link : the_switch.direct_links()) {
    links.push_back({{"lsi", link.lsi},
                     {"port", link.port},
                     {"group", link.group},
                     {"to", link.to.empty() ? json() : json(link.to)},
                     {"state", link.state},
                     {"packets", link.packets},
                     {"octets", link.octets},
                     {"reason", link.reason.empty() ? json() : json(link.reason)}});
  }
  return {{"links", std::move(links)}};
}

namespace {

/// The cycles of the tables that had packets while timing was on, by bridges.
json table_times(const Switch& the_switch) {
  json lsis = json::array();
  for (const auto& [name, lsi] : the_switch.lsis()) {
    json tables = json::array();
    for (const pipeline::TableTimes& time : lsi->lsi().table_times()) {
      tables.push_back({{"table_id", time.table_id},
                        {"worker", time.worker},
                        {"packets", time.packets},
                        {"lookup_cycles", time.lookup_cycles},
                        {"action_cycles", time.action_cycles}});
    }
    if (!tables.empty()) lsis.push_back({{"name", name}, {"tables", std::move(tables)}});
  }
  return lsis;
}

}  // namespace

json report_cycles(const Switch& the_switch) {
  json workers = json::array();
  bool was_timed = false;
  const WorkerPool& pool = the_switch.workers();
  for (size_t i = 0; i < pool.workers().size(); ++i) {
    const auto& worker = pool.workers()[i];
    const WorkerCounters& counters = worker->counters();
    json entry{{"number", worker->number()},
               {"cpu", worker->cpu()},
               {"busy_cycles", counters.busy_cycles.read()},
               {"idle_cycles", counters.idle_cycles.read()},
               {"sleep_cycles", counters.sleep_cycles.read()},
               {"polls", counters.rounds.read()},
               {"busy_polls", counters.busy_rounds.read()},
               {"packets", counters.packets.read()},
               {"packet_outs", counters.packet_outs.read()},
               {"punts_refused", worker->punts().refused()}};
    if (const uint64_t packets = counters.staged_packets.read(); packets > 0) {
      was_timed = true;
      entry["stages"] = {{"packets", packets},
                         {"receive", counters.receive_cycles.read()},
                         {"pipeline", counters.pipeline_cycles.read()},
                         {"transmit", counters.transmit_cycles.read()}};
    }
    entry["queues"] = queues_json(pool, i);
    workers.push_back(std::move(entry));
  }
  // Reading the times of all tables of all bridges takes long, and mostly there are none.
  return {{"lsis", was_timed ? table_times(the_switch) : json::array()},
          {"tsc_hz", rte_get_tsc_hz()},
          {"stage_timing", the_switch.workers().stage_timing()},
          {"longest_grace_wait_us", the_switch.longest_grace_wait().count()},
          {"workers", std::move(workers)}};
}

}  // namespace headrace::runtime
