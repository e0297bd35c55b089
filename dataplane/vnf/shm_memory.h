// SPDX-License-Identifier: Apache-2.0
// A region of shared memory as a VNF holds it: the mapping and an mbuf for each buffer, shared by
// all of the VNF's ports in the region, so that a packet goes from one port to another by number.
//
// Which port a packet came in by is noted here: its marks are that port's (shm/layout.h), and it is
// that port that gives the buffer up when the packet leaves by another or is freed.
//
// What the function frees goes to the mbuf pool as usual; collect() gives it back to the switch.
//
// Thread safety: made by the control thread; the rest is the worker's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "shm/attach_client.h"
#include "shm/mbufs.h"
#include "shm/vnf_end.h"

namespace headrace::vnf {

class ShmMemory {
 public:
  /// The region behind `region`, mapped; what this process has mapped already is shared.
  static Result<std::shared_ptr<ShmMemory>> of(int region);
  ~ShmMemory();
  ShmMemory(const ShmMemory&) = delete;
  ShmMemory& operator=(const ShmMemory&) = delete;

  [[nodiscard]] std::span<uint8_t> octets() const { return octets_; }
  [[nodiscard]] const shm::MbufSet& mbufs() const { return mbufs_; }
  /// The port that holds the buffer.
  [[nodiscard]] shm::VnfEnd* owner(uint32_t buffer) const { return owners_[buffer]; }
  void set_owner(uint32_t buffer, shm::VnfEnd& owner) { owners_[buffer] = &owner; }
  /// Gives back what the function has freed.
  void collect() noexcept {
    if (rte_mempool_avail_count(mbufs_.pool()) > 0) give_back();
  }

 private:
  ShmMemory() = default;
  void give_back() noexcept;

  std::span<uint8_t> octets_;
  shm::MbufSet mbufs_;
  std::vector<shm::VnfEnd*> owners_;
};

}  // namespace headrace::vnf
