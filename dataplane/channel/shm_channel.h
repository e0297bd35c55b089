// SPDX-License-Identifier: Apache-2.0
// Two Headrace ports as a channel, their ends as libheadrace-port has them (shm/vnf_end.h).
//
// Without a socket the region is made here, and a direct link each way by the switch's own code
// (shm/direct_link.h). With one, the ports are a running switch's, and so is what it makes of them.
#pragma once

#include "channel/end.h"

namespace headrace::channel {

struct ShmOptions {
  std::string socket;  ///< of the switch's group; empty: a region of our own
  std::string producer{"producer"};
  std::string consumer{"consumer"};
  bool direct{true};  ///< both ways linked directly: the consumer sends buffers back by its link
  uint32_t buffers{256};  ///< under way on a direct link, there and back
};

Result<std::unique_ptr<Channel>> make_shm_channel(const ShmOptions& options);

}  // namespace headrace::channel
