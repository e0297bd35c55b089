// SPDX-License-Identifier: Apache-2.0
// The bare ring as a channel: packet buffers are passed by number and returned by another ring.
//
// One way: only numbers are passed, without packets, and none are returned; the rate of a queue
// alone, as published comparisons of queues state it.
#pragma once

#include "channel/end.h"

namespace headrace::channel {

struct RingOptions {
  bool one_way{false};
  uint32_t buffers{1024};  ///< in circulation
};

Result<std::unique_ptr<Channel>> make_ring_channel(const RingOptions& options);

}  // namespace headrace::channel
