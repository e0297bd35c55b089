// SPDX-License-Identifier: Apache-2.0
// A region of shared memory mapped by a VNF, with an mbuf for each buffer, shared by all of the
// VNF's ports in the region, so that a packet is passed from one port to another by number.
//
// Records which port received each packet: the buffer's marks name that port (shm/layout.h), which
// must release the buffer when the packet is sent on another port or freed.
//
// Packets that the function frees go to the mbuf pool as usual; collect() returns them to the
// switch.
//
// Thread safety: made by the control thread; all else is called by the worker only.
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
  /// The region of the file `region`, mapped; a region that this process has mapped already is
  /// shared.
  static Result<std::shared_ptr<ShmMemory>> of(int region);
  ~ShmMemory();
  ShmMemory(const ShmMemory&) = delete;
  ShmMemory& operator=(const ShmMemory&) = delete;

  [[nodiscard]] std::span<uint8_t> octets() const { return octets_; }
  [[nodiscard]] const shm::MbufSet& mbufs() const { return mbufs_; }
  /// The port that holds the buffer.
  [[nodiscard]] shm::VnfEnd* owner(uint32_t buffer) const { return owners_[buffer]; }
  void set_owner(uint32_t buffer, shm::VnfEnd& owner) { owners_[buffer] = &owner; }
  /// Returns the buffers that the function has freed to the switch.
  void collect() noexcept {
    if (rte_mempool_avail_count(mbufs_.pool()) > 0) return_buffers();
  }

 private:
  ShmMemory() = default;
  void return_buffers() noexcept;

  std::span<uint8_t> octets_;
  shm::MbufSet mbufs_;
  std::vector<shm::VnfEnd*> owners_;
};

}  // namespace headrace::vnf
