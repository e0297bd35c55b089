// SPDX-License-Identifier: Apache-2.0
// The bare ring as a channel: packet buffers by number there, and the same buffers back.
//
// One way: numbers only go, nothing comes back, and there are no packets behind them; the figure of
// a queue alone, as tables of queues have it.
#pragma once

#include "channel/end.h"

namespace headrace::channel {

struct RingOptions {
  bool one_way{false};
  uint32_t buffers{1024};  ///< under way, there and back
};

Result<std::unique_ptr<Channel>> make_ring_channel(const RingOptions& options);

}  // namespace headrace::channel
