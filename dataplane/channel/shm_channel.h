// SPDX-License-Identifier: Apache-2.0
// Two ports of a running switch's trust group as a channel, their ends as libheadrace-port has them
// (shm/vnf_end.h).
//
// Direct: the switch's rules join the two ports both ways, so that it makes a direct link each way;
// an end is open once its own are. The switch takes no part after that.
#pragma once

#include "channel/end.h"

namespace headrace::channel {

struct ShmOptions {
  std::string socket;  ///< of the switch's group
  std::string producer{"producer"};
  std::string consumer{"consumer"};
  bool direct{true};  ///< both ways linked directly: the consumer sends buffers back by its link
  uint32_t buffers{1024};  ///< under way on a direct link, there and back
};

Result<std::unique_ptr<Channel>> make_shm_channel(const ShmOptions& options);

}  // namespace headrace::channel
