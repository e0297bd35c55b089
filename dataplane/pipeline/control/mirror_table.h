// SPDX-License-Identifier: Apache-2.0
// The mirrors of one LSI: what is wanted of them, what its ports are to them, what they have sent.
//
// Thread safety: control thread only; workers see what place() publishes at the ports.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/control/port_table.h"
#include "pipeline/program/mirror.h"
#include "pipeline/terms/mirror_config.h"

namespace headrace::pipeline {

class MirrorTable {
 public:
  /// Replaces all mirrors; place() makes it so.
  Result<> set(std::vector<MirrorConfig> mirrors);

  /// Tells the ports that there are what they are to the mirrors; what workers may still be
  /// reading, to be freed after a grace period.
  [[nodiscard]] std::vector<std::shared_ptr<const void>> place(PortTable& ports);

  [[nodiscard]] std::map<std::string, MirrorStats> stats() const;

 private:
  [[nodiscard]] bool is_output(PortNo port) const;
  /// Ports that carry the copies of a mirror without an output port.
  [[nodiscard]] std::vector<PortNo> carriers(const MirrorConfig& config,
                                             const PortTable& ports) const;

  std::vector<MirrorConfig> mirrors_;
  std::map<std::string, std::shared_ptr<MirrorCounts>> counts_;
  bool placed_{false};  ///< ports have been told of mirrors
};

}  // namespace headrace::pipeline
