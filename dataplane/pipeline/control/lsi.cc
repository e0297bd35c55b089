// SPDX-License-Identifier: Apache-2.0
// What changes an LSI's rules, and what workers see of it; ports, bundles and reading are in
// lsi_*.cc.
#include "pipeline/control/lsi.h"

#include "pipeline/control/lsi_state.h"

namespace headrace::pipeline {

Lsi::Lsi(LsiConfig config, Reclaimer& reclaimer)
    : config_(std::move(config)), state_(std::make_unique<State>(config_, reclaimer)) {
  publish();
  state_->flows.on_built([this] { show_change(); });
}

Lsi::~Lsi() {
  delete program_.load(std::memory_order_relaxed);
}

void Lsi::publish() {
  auto* program = new LsiProgram;
  program->lsi_id = config_.id;
  program->version = ++state_->version;
  state_->flows.fill(*program);
  program->macs = &state_->macs;
  program->forwards_reserved = state_->normal.forward_reserved;
  program->defragmenter = state_->defragmenter;
  if (program->defragmenter != nullptr) program->receive_features |= kReceiveReassemble;
  const bool drops_fragments = state_->fragments == FragmentMode::drop;
  if (drops_fragments) program->receive_features |= kReceiveDropFragments;
  if (drops_fragments && program->depth < packet::Depth::l4) {
    program->depth = packet::Depth::l4;
    program->extract = match::extractor_for(program->depth);
  }
  program->ports = state_->ports.published();
  for (const Port* port : program->ports) {
    if (port->number < program->low_ports.size()) program->low_ports[port->number] = port;
  }
  const LsiProgram* old = program_.exchange(program, std::memory_order_acq_rel);
  if (old != nullptr) state_->reclaimer.defer([old] { delete old; });
}

/// Makes a change visible, now or when its tables have been built.
void Lsi::finish_change() {
  if (!state_->flows.building()) show_change();
}

/// Makes a change visible, at once, and gives up what it replaced.
void Lsi::show_change() {
  const bool publishes = state_->flows.needs_publishing();
  // Of one group or meter alone, nothing else need change with it.
  const uint64_t since = state_->version + (publishes ? 1 : 0);
  state_->groups.commit(since);
  state_->meters.commit(since);
  if (publishes) publish();
  state_->flows.retire();
  state_->groups.retire();
  state_->meters.retire();
  for (const PortMod& mod : std::exchange(state_->last, {})) (void)port_mod(mod);
  state_->changed();
  for (const auto& function : std::exchange(state_->waiting, {})) function();
}

bool Lsi::changing() const {
  return state_->flows.building();
}

void Lsi::when_visible(std::function<void()> function) {
  if (!changing()) return function();
  state_->waiting.push_back(std::move(function));
}

OfResult<> Lsi::flow_mod(const FlowMod& mod) {
  state_->flows.wait_until_built();
  state_->account();
  OfResult<> done = state_->flows.apply(mod, *state_, state_->now());
  finish_change();
  return done;
}

OfResult<> Lsi::group_mod(const GroupMod& mod) {
  state_->flows.wait_until_built();
  state_->account();
  OfResult<> done = state_->apply_group(mod);
  finish_change();
  return done;
}

OfResult<> Lsi::meter_mod(const MeterMod& mod) {
  state_->flows.wait_until_built();
  state_->account();
  OfResult<> done = state_->apply_meter(mod);
  finish_change();
  return done;
}

void Lsi::set_fragments(FragmentMode mode, std::shared_ptr<Defragmenter> defragmenter) {
  if (mode == state_->fragments) return;
  state_->account();
  state_->fragments = mode;
  state_->defragmenter = mode == FragmentMode::reassemble ? std::move(defragmenter) : nullptr;
  publish();
  state_->changed();
}

FragmentMode Lsi::fragments() const {
  return state_->fragments;
}

void Lsi::set_normal(const NormalConfig& config) {
  if (config == state_->normal) return;
  state_->normal = config;
  state_->macs.set_max_age(state_->mac_age());
  publish();
}

void Lsi::expire() {
  state_->macs.expire(static_cast<uint32_t>(state_->now() >> kTickShift));
  if (changing()) return;
  if (state_->flows.expire(state_->now())) finish_change();
}

OfResult<std::unique_ptr<ActionProgram>> Lsi::compile(const ActionList& actions) const {
  OfResult<std::vector<Op>> ops = compile_actions(actions, ActionContext::packet_out, *state_);
  if (!ops) return tl::unexpected(ops.error());
  return std::make_unique<ActionProgram>(std::move(*ops));
}

void Lsi::watch_flows(FlowWatcher watcher) {
  state_->flows.watch(std::move(watcher));
}

void Lsi::add_observer(LsiObserver& observer) {
  state_->observers.push_back(&observer);
}

void Lsi::remove_observer(LsiObserver& observer) {
  std::erase(state_->observers, &observer);
}

}  // namespace headrace::pipeline
