// SPDX-License-Identifier: Apache-2.0
// Two ports of a running switch's trust group as a channel; the ends are those of libheadrace-port
// (shm/vnf_end.h).
//
// Direct: the switch's rules connect the two ports both ways, so that it makes a direct link each
// way; an end is open once its links are. The switch is not involved after that.
#pragma once

#include "channel/end.h"

namespace headrace::channel {

struct ShmOptions {
  std::string socket;  ///< of the switch's group
  std::string producer{"producer"};
  std::string consumer{"consumer"};
  bool direct{true};       ///< direct links both ways: the consumer returns buffers by its link
  uint32_t buffers{1024};  ///< in circulation on the direct links
};

Result<std::unique_ptr<Channel>> make_shm_channel(const ShmOptions& options);

}  // namespace headrace::channel
