// SPDX-License-Identifier: Apache-2.0
// Bundles: many changes at once, or none of them.
#include "pipeline/control/lsi.h"
#include "pipeline/control/lsi_state.h"

namespace headrace::pipeline {

tl::expected<void, BundleFailure> Lsi::apply_bundle(std::span<const BundleItem> items) {
  State& state = *state_;
  state.flows.wait_until_built();
  if (items.size() == 1 && std::holds_alternative<FlowMod>(items[0])) {
    if (OfResult<> done = flow_mod(std::get<FlowMod>(items[0])); !done) {
      return tl::unexpected(BundleFailure{0, done.error()});
    }
    return {};
  }
  state.account();
  state.flows.begin_bundle(items.size());
  for (size_t index = 0; index < items.size(); ++index) {
    OfResult<> done = state.apply(items[index]);
    if (done) continue;
    state.flows.abort_bundle();
    state.groups.abort();
    state.meters.abort();
    state.flows.retire();
    return tl::unexpected(BundleFailure{index, done.error()});
  }
  // Ports change last, when nothing can fail any more.
  for (const BundleItem& item : items) {
    if (const auto* port = std::get_if<PortMod>(&item)) state.last.push_back(*port);
  }
  state.flows.commit_bundle();
  if (state.groups.changed() || state.meters.changed()) state.flows.require_publishing();
  finish_change();
  return {};
}

}  // namespace headrace::pipeline
