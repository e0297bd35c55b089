// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/direct_link_manager.h"

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>

#include "base/log.h"

namespace headrace::runtime {
namespace {

/// Between two looks at links that VNFs are still to follow.
constexpr std::chrono::milliseconds kPatience{2};

}  // namespace

DirectLinkManager::DirectLinkManager(asio::io_context& io, const Lsis& lsis)
    : io_(io), lsis_(lsis), timer_(io) {}

DirectLinkManager::~DirectLinkManager() = default;

void DirectLinkManager::changed() {
  if (look_scheduled_) return;
  look_scheduled_ = true;
  asio::post(io_, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    look_scheduled_ = false;
    look();
  });
}

void DirectLinkManager::account() {
  for (auto& [from, link] : links_) {
    const shm::DirectTraffic traffic = link.to->take_direct_traffic();
    if (traffic.packets == 0 && traffic.octets == 0) continue;
    traffic_[from].packets += traffic.packets;
    traffic_[from].octets += traffic.octets;
    for (const pipeline::PathLeg& leg : link.legs) {
      leg.lsi->account(leg, traffic.packets, traffic.octets);
    }
  }
}

const SwitchPort* DirectLinkManager::port_at(const pipeline::Lsi& lsi,
                                             pipeline::PortNo number) const {
  for (const auto& [name, candidate] : lsis_) {
    if (&candidate->lsi() != &lsi) continue;
    for (const auto& [port_name, port] : candidate->ports()) {
      if (port->spec.number == number) return port.get();
    }
  }
  return nullptr;
}

DirectLinkManager::Verdict DirectLinkManager::judge(pipeline::PointToPointPaths& search,
                                                    const SwitchLsi& lsi,
                                                    const SwitchPort& port) const {
  const End& from = *port.device->direct_end();
  pipeline::PointToPointPath path = search.find(lsi.lsi(), port.spec.number);
  const auto refuse = [](std::string reason) { return Verdict{.reason = std::move(reason)}; };
  if (!path.found()) return refuse(std::move(path.reason));
  for (const pipeline::PathLeg& leg : path.legs) {
    // The rules are those to come. Workers do not run them yet.
    if (leg.lsi->changing()) return refuse("a flow table is being built");
  }
  const pipeline::PathLeg& last = path.legs.back();
  const SwitchPort* exit = port_at(*last.lsi, last.out);
  End* to = exit == nullptr || !exit->device ? nullptr : exit->device->direct_end();
  if (to == nullptr) return refuse("all goes to a port of another kind");
  const std::string& name = exit->spec.name;
  if (to->group() != from.group()) {
    return refuse(fmt::format("all goes to {}, of the trust group {}", name, to->group()));
  }
  if (exit->tx_queues) return refuse(fmt::format("{} has queues", name));
  for (const SwitchPort* end : {&port, exit}) {
    if (end->device->direct_end()->has_vnf()) continue;
    return refuse(fmt::format("no VNF is attached to {}", end->spec.name));
  }
  return {.to = to, .to_name = name, .legs = std::move(path.legs), .reason = {}};
}

void DirectLinkManager::look() {
  account();
  pipeline::PointToPointPaths search;
  verdicts_.clear();
  for (const auto& [lsi_name, lsi] : lsis_) {
    for (const auto& [name, port] : lsi->ports()) {
      End* from = port->device ? port->device->direct_end() : nullptr;
      if (from != nullptr) verdicts_[from] = judge(search, *lsi, *port);
    }
  }
  for (auto& [from, link] : links_) {
    const Verdict& verdict = verdicts_[from];
    if (verdict.to == link.to && !link.ending) {
      link.legs = verdict.legs;
    } else {
      end(*from, link);
    }
  }
  advance();
}

void DirectLinkManager::end(End& from, Link& link) {
  if (link.ending) return;
  link.ending = true;
  from.send_to(nullptr);
}

bool DirectLinkManager::is_used(const End& to) const {
  return std::ranges::any_of(links_, [&to](const auto& link) { return link.second.to == &to; });
}

void DirectLinkManager::advance() {
  bool waiting = false;
  const auto is_off = [](const auto& entry) {
    return entry.second.ending && entry.first->link_state() == shm::LinkState::off;
  };
  if (std::ranges::any_of(links_, is_off)) {
    account();
    std::erase_if(links_, is_off);
  }
  for (const auto& [from, verdict] : verdicts_) {
    if (verdict.to == nullptr) continue;
    const auto found = links_.find(from);
    if (found != links_.end() && !found->second.ending) continue;
    if (found != links_.end() || is_used(*verdict.to)) {
      waiting = true;
      continue;
    }
    verdict.to->take_direct_traffic();  // its rules are gone: counted nowhere
    links_[from] = {verdict.to, verdict.to_name, verdict.legs};
    from->send_to(verdict.to);
  }
  for (const auto& [from, link] : links_) waiting |= link.ending;
  if (!waiting || timer_runs_) return;
  timer_runs_ = true;
  timer_.expires_after(kPatience);
  timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;  // the switch is going
    timer_runs_ = false;
    advance();
  });
}

void DirectLinkManager::forget(const SwitchPort& port) {
  End* gone = port.device ? port.device->direct_end() : nullptr;
  if (gone == nullptr) return;
  account();
  for (auto& [from, link] : links_) {
    if (from == gone || link.to == gone) end(*from, link);
  }
  std::erase_if(
      links_, [gone](const auto& entry) { return entry.first == gone || entry.second.to == gone; });
  verdicts_.erase(gone);
  std::erase_if(verdicts_, [gone](const auto& entry) { return entry.second.to == gone; });
  traffic_.erase(gone);
  changed();
}

void DirectLinkManager::forget(const pipeline::Lsi& lsi) {
  account();
  const auto leads_through = [&lsi](const pipeline::PathLeg& leg) { return leg.lsi == &lsi; };
  for (auto& [from, link] : links_) {
    if (std::erase_if(link.legs, leads_through) > 0) end(*from, link);
  }
  std::erase_if(verdicts_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second.legs, leads_through);
  });
  changed();
}

std::vector<LinkReport> DirectLinkManager::report() {
  account();
  std::vector<LinkReport> reports;
  for (const auto& [lsi_name, lsi] : lsis_) {
    for (const auto& [name, port] : lsi->ports()) {
      End* from = port->device ? port->device->direct_end() : nullptr;
      if (from == nullptr) continue;
      LinkReport report{.lsi = lsi_name, .port = name, .group = from->group()};
      report.state = shm::name(from->link_state());
      if (const auto link = links_.find(from); link != links_.end()) {
        report.to = link->second.to_name;
        if (link->second.ending && report.state == "on") report.state = "closing";
      }
      if (const auto verdict = verdicts_.find(from); verdict != verdicts_.end()) {
        report.reason = verdict->second.reason;
        if (report.to.empty()) report.to = verdict->second.to_name;
      }
      if (const auto traffic = traffic_.find(from); traffic != traffic_.end()) {
        report.packets = traffic->second.packets;
        report.octets = traffic->second.octets;
      }
      reports.push_back(std::move(report));
    }
  }
  return reports;
}

}  // namespace headrace::runtime
