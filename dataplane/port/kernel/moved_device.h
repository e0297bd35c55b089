// SPDX-License-Identifier: Apache-2.0
// The note that a port's tap device is in another network namespace, which outlives the process: a
// file of one line, `<device> <inode> <name>`, of the namespace and of the interface there.
//
// Thread safety: control thread.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "port/kernel/interface.h"

namespace headrace::port {

class MovedDevice {
 public:
  struct Place {
    NamespaceId where;
    std::string name;
  };

  MovedDevice(const std::string& rundir, const std::string& port)
      : path_(rundir + "/" + port + ".netns") {}

  /// Nothing: there is no note, or it cannot be read.
  [[nodiscard]] std::optional<Place> read() const;
  [[nodiscard]] Result<> write(const Place& place) const;
  void forget() const;

 private:
  std::string path_;
};

}  // namespace headrace::port
