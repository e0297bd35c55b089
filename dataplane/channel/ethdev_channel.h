// SPDX-License-Identifier: Apache-2.0
// Two DPDK devices that are each other's peer (virtio-user and vhost, memif, AF_PACKET on a veth
// pair, taps on a bridge) as a channel, each in a separate process with its own EAL.
//
// An end is open once its device is started and its link is up: memif, for example, starts only
// when its peer is present.
#pragma once

#include "channel/end.h"

namespace headrace::channel {

struct EthdevOptions {
  std::string producer;  ///< devargs, as rte_dev_probe() takes them
  std::string consumer;
  uint32_t memory_mb{64};  ///< of each end
  uint16_t descriptors{1024};
};

Result<std::unique_ptr<Channel>> make_ethdev_channel(const EthdevOptions& options);

}  // namespace headrace::channel
