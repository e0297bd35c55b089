// SPDX-License-Identifier: Apache-2.0
// Fail-mode standalone: what an LSI does when it has lost its controllers.
//
// When none of an LSI's controllers has been connected for three inactivity probes, a rule above
// all others makes it a learning switch; it goes when one connects again. So it is in Open vSwitch;
// there the rule is hidden, here it is seen by its cookie. In fail-mode secure, nothing happens:
// rules stay and time out as they would.
//
// Source: OpenFlow Switch Specification 1.3.5, section 6.3.2 (connection interruption).
//
// Thread safety: control thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "pipeline/control/lsi.h"

namespace headrace::runtime {

class FailOpen {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kCookie = 0x6661696c2d6f706e;  ///< "fail-opn"
  static constexpr int kProbes = 3;
  /// Stands for a probe that is switched off.
  static constexpr std::chrono::milliseconds kDefaultProbe{5000};

  /// `lsi` must outlive this.
  explicit FailOpen(pipeline::Lsi& lsi) : lsi_(lsi) {}

  /// How things are now; call it a few times per second. `wanted`: the LSI is standalone and has
  /// controllers. `probe`: the longest inactivity probe of them.
  void update(bool wanted, bool connected, std::chrono::milliseconds probe, Clock::time_point now);
  [[nodiscard]] bool is_open() const { return open_; }

 private:
  void set_open(bool open);

  pipeline::Lsi& lsi_;
  std::optional<Clock::time_point> lost_at_;
  bool open_{false};
};

}  // namespace headrace::runtime
