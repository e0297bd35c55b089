// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/fail_open.h"

#include "base/log.h"

namespace headrace::runtime {

void FailOpen::update(bool wanted, bool connected, std::chrono::milliseconds probe,
                      Clock::time_point now) {
  if (!wanted || connected) {
    lost_at_.reset();
    if (open_) set_open(false);
    return;
  }
  if (!lost_at_) lost_at_ = now;
  if (probe.count() == 0) probe = kDefaultProbe;
  if (!open_ && now - *lost_at_ >= kProbes * probe) set_open(true);
}

void FailOpen::set_open(bool open) {
  if (lsi_.changing()) return;  // at the next call
  pipeline::FlowMod mod;
  mod.priority = UINT16_MAX;
  mod.cookie = kCookie;
  if (open) {
    mod.instructions.push_back(
        pipeline::ApplyActions{{pipeline::OutputAction{.port = pipeline::kPortNormal}}});
  } else {
    mod.command = pipeline::FlowMod::Command::remove_strict;
    mod.cookie_mask = UINT64_MAX;
  }
  if (const auto done = lsi_.flow_mod(mod); !done) {
    log::error("{}: the rule of fail-mode standalone (error type {}, code {})", lsi_.config().name,
               done.error().type, done.error().code);
    return;
  }
  open_ = open;
  log::info("{}: {}", lsi_.config().name,
            open ? "no controller: forwarding as a learning switch (fail-mode standalone)"
                 : "fail-mode standalone ends");
}

}  // namespace headrace::runtime
