// SPDX-License-Identifier: Apache-2.0
// Reassembly of IPv4 and IPv6 fragments, by DPDK's librte_ip_frag: what a `defrag` port does.
//
// Each worker has a table of its own, so fragments of one packet must be output to the port by one
// worker: they come by one queue, as their addresses and protocol are the same (an RSS hash over
// ports would part the first fragment from the rest: RFC 6438's problem, not ours).
//
// Limits: 8 fragments to a packet (as DPDK is built), 1024 packets under way per worker, 5 s to
// complete one (RFC 791, 3.2 and RFC 8200, 4.5 allow up to 15 and 60). IPv6: the fragment header
// must follow the IPv6 header directly. What does not fit is dropped, as are fragments that
// overlap.
//
// Thread safety: take() and finish() by the worker whose number is given; the rest by the control
// thread.
#pragma once

#include <rte_mbuf.h>

#include <memory>
#include <vector>

#include "base/result.h"

struct rte_ip_frag_tbl;

namespace headrace::pipeline {

class Defragmenter {
 public:
  /// For workers 0..workers-1; `hz`: TSC cycles per second.
  static Result<std::shared_ptr<Defragmenter>> make(unsigned workers, uint64_t hz);
  ~Defragmenter();
  Defragmenter(const Defragmenter&) = delete;
  Defragmenter& operator=(const Defragmenter&) = delete;

  /// Takes a packet. What comes back is whole: the packet itself if it is no fragment, or the one
  /// that it completes; null if it is kept, or could not be used and is freed by finish().
  rte_mbuf* take(unsigned worker, rte_mbuf* packet, uint64_t tsc) noexcept;

  /// Ends a burst: frees what could not be used or completed in time; how many packets that were.
  unsigned finish(unsigned worker, uint64_t tsc) noexcept;

 private:
  struct PerWorker;
  explicit Defragmenter(unsigned workers);

  std::vector<std::unique_ptr<PerWorker>> workers_;
};

}  // namespace headrace::pipeline
