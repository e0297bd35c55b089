// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/frame_pool.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <vector>

#include "eal/eal.h"
#include "eal/mempool.h"

namespace headrace::port::vhost {
namespace {

constexpr uint32_t kBuffers = 4095;

TEST(FramePool, ABurstGetsSoManyBuffersOfTheRealPoolAndNoMore) {
  auto eal = eal::Eal::init({.file_prefix = "headrace-frame-pool-" + std::to_string(::getpid()),
                             .memory_mb = 64,
                             .allow_hugepages = false});
  ASSERT_TRUE(eal) << eal.error().message;
  auto real = eal::make_mempool({.name = "real", .buffers = kBuffers, .cache = 0});
  ASSERT_TRUE(real) << real.error().message;
  {
    auto frames = FramePool::of(real->get());
    ASSERT_TRUE(frames) << frames.error().message;
    EXPECT_EQ(*FramePool::of(real->get()), *frames);
    for (int burst = 0; burst < 3; ++burst) {
      rte_mempool* pool = (*frames)->for_burst();
      EXPECT_EQ(rte_pktmbuf_data_room_size(pool), rte_pktmbuf_data_room_size(real->get()));
      std::vector<rte_mbuf*> taken;
      while (rte_mbuf* buffer = rte_pktmbuf_alloc(pool)) {
        EXPECT_EQ(buffer->pool, real->get());
        taken.push_back(buffer);
      }
      // 32 segments of 64 KiB and their headers, in buffers of 2,048 octets or a little more.
      EXPECT_GE(taken.size(), 32u * 30);
      EXPECT_LE(taken.size(), 32u * 33);
      EXPECT_EQ(rte_mempool_avail_count(real->get()), kBuffers - taken.size());
      rte_pktmbuf_free_bulk(taken.data(), static_cast<unsigned>(taken.size()));
      EXPECT_EQ(rte_mempool_avail_count(real->get()), kBuffers);
    }
  }
  EXPECT_TRUE(FramePool::of(real->get())) << "it can be made again";
}

}  // namespace
}  // namespace headrace::port::vhost
