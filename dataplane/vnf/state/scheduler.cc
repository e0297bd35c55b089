// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/scheduler.h"

#include <rte_lcore.h>

#include <algorithm>

namespace headrace::vnf {
namespace {

constexpr uint32_t kMaxFrame = 9618;
constexpr double kFullFrame = 1538;  ///< 1500 octets of IP plus Ethernet's overhead
/// The rate configured in rte_sched: 400 Gbit/s, which no port reaches.
constexpr uint64_t kUnlimited = 50'000'000'000;

template <typename Params>
void set_unlimited(Params& params) {
  params.tb_rate = kUnlimited;
  params.tb_size = kUnlimited / 100;
  std::fill(std::begin(params.tc_rate), std::end(params.tc_rate), kUnlimited);
  params.tc_period = 10;
}

}  // namespace

Result<Scheduler> Scheduler::make(const SchedulerOptions& options, uint64_t tsc_hz) {
  static unsigned serial = 0;
  const auto name = fmt::format("scheduler{}", serial++);
  const double bytes_per_second = static_cast<double>(options.rate_bps) / 8;
  rte_sched_subport_profile_params profile{};
  set_unlimited(profile);
  rte_sched_port_params port{};
  port.name = name.c_str();
  port.socket = std::max(0, static_cast<int>(rte_socket_id()));  // rte_sched takes no "any"
  port.rate = kUnlimited;
  port.mtu = kMaxFrame;
  port.frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT;
  port.n_subports_per_port = 1;
  port.subport_profiles = &profile;
  port.n_subport_profiles = 1;
  port.n_max_subport_profiles = 1;
  port.n_pipes_per_subport = 1;
  Scheduler scheduler(rte_sched_port_config(&port), bytes_per_second / static_cast<double>(tsc_hz),
                      std::max(bytes_per_second / 1000, 2 * kFullFrame));
  if (scheduler.port_ == nullptr) {
    return fail("no scheduler for {} bit/s; see DPDK's log for the reason", options.rate_bps);
  }
  rte_sched_pipe_params pipe{};
  set_unlimited(pipe);
  pipe.tc_ov_weight = 1;
  std::copy(options.weights.begin(), options.weights.end(), pipe.wrr_weights);
  rte_sched_subport_params subport{};
  subport.n_pipes_per_subport_enabled = 1;
  std::fill(std::begin(subport.qsize), std::end(subport.qsize), options.queue_packets);
  subport.pipe_profiles = &pipe;
  subport.n_pipe_profiles = 1;
  subport.n_max_pipe_profiles = 1;
  if (rte_sched_subport_config(scheduler.port_.get(), 0, &subport, 0) != 0 ||
      rte_sched_pipe_config(scheduler.port_.get(), 0, 0, 0) != 0) {
    return fail("no queues of {} packets; see DPDK's log for the reason", options.queue_packets);
  }
  return scheduler;
}

uint32_t Scheduler::enqueue(std::span<rte_mbuf*> packets) noexcept {
  const int fitted =
      rte_sched_port_enqueue(port_.get(), packets.data(), static_cast<uint32_t>(packets.size()));
  const auto count = static_cast<uint32_t>(std::max(fitted, 0));
  size_ += count;
  return count;
}

void Scheduler::refill(uint64_t now) noexcept {
  if (last_ == 0) last_ = now;
  credit_ = std::min(burst_, credit_ + static_cast<double>(now - last_) * bytes_per_cycle_);
  last_ = now;
}

uint32_t Scheduler::dequeue(uint64_t now, std::span<rte_mbuf*> packets) noexcept {
  refill(now);
  uint32_t taken = 0;
  while (size_ > 0 && credit_ > 0 && taken < packets.size()) {
    // As many as the tokens surely cover, plus one that may make them negative.
    const auto covered = static_cast<uint32_t>(credit_ / kFullFrame) + 1;
    const auto wanted = std::min(covered, static_cast<uint32_t>(packets.size()) - taken);
    const int count = rte_sched_port_dequeue(port_.get(), packets.data() + taken, wanted);
    if (count <= 0) break;
    for (int i = 0; i < count; ++i) {
      credit_ -= rte_pktmbuf_pkt_len(packets[taken++]) + RTE_SCHED_FRAME_OVERHEAD_DEFAULT;
    }
    size_ -= static_cast<uint32_t>(count);
  }
  return taken;
}

}  // namespace headrace::vnf
