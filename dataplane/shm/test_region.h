// SPDX-License-Identifier: Apache-2.0
// For tests: a region with both of its ends.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <vector>

#include "shm/region.h"
#include "shm/switch_end.h"
#include "shm/vnf_end.h"

namespace headrace::shm::test {

inline constexpr uint32_t kBuffers = 512;

/// A stack of buffers.
class StackPool : public BufferPool {
 public:
  explicit StackPool(uint32_t buffers) : free_(buffers) {
    std::iota(free_.begin(), free_.end(), 0);
  }
  uint32_t take(std::span<uint32_t> buffers) override {
    uint32_t count = 0;
    while (count < buffers.size() && !free_.empty()) {
      buffers[count++] = free_.back();
      free_.pop_back();
    }
    return count;
  }
  void give(std::span<const uint32_t> buffers) override {
    free_.insert(free_.end(), buffers.begin(), buffers.end());
  }
  [[nodiscard]] size_t size() const { return free_.size(); }

 private:
  std::vector<uint32_t> free_;
};

/// A region of four ports and, for each, a VNF's end through a separate mapping.
class SharedRegion : public testing::Test {
 protected:
  SharedRegion()
      : region_(*Region::create({.name = "test",
                                 .n_ports = 4,
                                 .n_buffers = kBuffers,
                                 .ring_capacity = 64,
                                 .hugepages = false})),
        ends_(region_, pool_),
        mapping_(*Mapping::open(dup(region_.mapping().fd()))) {
    for (uint32_t port = 0; port < vnf_.size(); ++port) vnf_[port].bind(mapping_.octets(), port);
  }

  /// Sends one packet of `length` octets, each of value `mark`, to a VNF.
  void send_to(uint32_t port, uint8_t mark, uint16_t length) {
    std::array<uint32_t, 1> buffer{};
    ASSERT_EQ(pool_.take(buffer), 1u);
    const Packet packet{.buffer = buffer[0], .begin = kHeadroom, .length = length};
    std::fill_n(region_.octets(buffer[0]) + kHeadroom, length, mark);
    ASSERT_EQ(ends_.send(port, {&packet, 1}), 1u);
  }

  Region region_;
  StackPool pool_{kBuffers};
  SwitchEnd ends_;
  Mapping mapping_;
  std::array<VnfEnd, 4> vnf_;
};

}  // namespace headrace::shm::test
