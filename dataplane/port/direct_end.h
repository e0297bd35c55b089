// SPDX-License-Identifier: Apache-2.0
// What a port offers that can be joined to another of its trust group past the switch.
//
// Thread safety: control thread only.
#pragma once

#include <string>
#include <string_view>

#include "shm/direct_link.h"

namespace headrace::port {

class DirectEnd {
 public:
  virtual ~DirectEnd() = default;
  /// The trust group; ends of one group can be joined.
  [[nodiscard]] virtual const std::string& group() const = 0;
  /// True while a VNF uses the port.
  [[nodiscard]] virtual bool has_vnf() const = 0;
  /// What leaves this port's VNF goes to `to`, an end of the same group, or (null) to the switch,
  /// as soon as the VNFs have followed. To another than before only while link_state() is off.
  virtual void send_to(const DirectEnd* to) = 0;
  /// Of what leaves this port's VNF.
  [[nodiscard]] virtual shm::LinkState link_state() const = 0;
  /// What came to this port's VNF directly since the last call.
  virtual shm::DirectTraffic take_direct_traffic() = 0;
};

}  // namespace headrace::port
