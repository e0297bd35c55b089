// SPDX-License-Identifier: Apache-2.0
#include "eal/eal.h"

#include <gtest/gtest.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "eal/hugepages.h"
#include "eal/mempool.h"
#include "eal/thread.h"

namespace headrace::eal {
namespace {

std::string prefix() {
  return "headrace-eal-test-" + std::to_string(::getpid());
}

/// EAL can be started once in a process: one for all tests here.
class EalTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto eal = Eal::init({.file_prefix = prefix(), .memory_mb = 64, .allow_hugepages = false});
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
    run_dir_ = "/var/run/dpdk/" + prefix();
  }
  static void TearDownTestSuite() { eal_.reset(); }

  static inline std::unique_ptr<Eal> eal_;
  static inline std::string run_dir_;
};

TEST_F(EalTest, SaysWhichPagesAndWhy) {
  EXPECT_EQ(eal_->pages(), Eal::Pages::ordinary);
  EXPECT_EQ(eal_->reason(), "hugepages not wanted");
  EXPECT_EQ(eal_->status()["file_prefix"], prefix());
  EXPECT_EQ(eal_->status()["memory_mb"], 64);
}

TEST_F(EalTest, OnlyOnce) {
  EXPECT_FALSE(Eal::init({.allow_hugepages = false}));
}

TEST_F(EalTest, MempoolCountsItsBuffers) {
  auto pool = make_mempool({.name = "counted", .buffers = 511, .cache = 0});
  ASSERT_TRUE(pool) << pool.error().message;
  EXPECT_EQ(rte_mempool_avail_count(pool->get()), 511u);
  rte_mbuf* packet = rte_pktmbuf_alloc(pool->get());
  ASSERT_NE(packet, nullptr);
  EXPECT_GE(rte_pktmbuf_tailroom(packet), 2048);
  EXPECT_EQ(rte_mempool_avail_count(pool->get()), 510u);
  rte_pktmbuf_free(packet);
}

TEST_F(EalTest, MempoolThatDoesNotFitIsAnError) {
  const auto pool = make_mempool({.name = "huge", .buffers = 1 << 20});
  ASSERT_FALSE(pool);
  EXPECT_NE(pool.error().message.find("more memory"), std::string::npos);
  EXPECT_TRUE(make_mempool({.name = "small", .buffers = 255, .cache = 0}))
      << "a failed pool must leave nothing behind";
}

TEST_F(EalTest, ThreadsRegisterAndLeave) {
  const unsigned before = rte_lcore_count();
  std::thread([&] {
    ASSERT_TRUE(pin_this_thread(0));
    const DpdkThread registered;
    EXPECT_TRUE(registered.registered());
    EXPECT_NE(rte_lcore_id(), LCORE_ID_ANY);
    EXPECT_EQ(::sched_getcpu(), 0);
  }).join();
  EXPECT_EQ(rte_lcore_count(), before);
}

TEST_F(EalTest, PinningToNoCpuIsAnError) {
  EXPECT_FALSE(pin_this_thread(100000));
  EXPECT_FALSE(pin_this_thread(1023));
}

/// A /proc of our own.
class HugepagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(proc_);
    write("meminfo", "HugePages_Total: 10\nHugePages_Free:  7\nHugepagesize:    2048 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(proc_); }
  void write(const char* name, const std::string& text) { std::ofstream(proc_ / name) << text; }

  std::filesystem::path proc_ =
      std::filesystem::path(::testing::TempDir()) / ("headrace-proc-" + std::to_string(::getpid()));
};

TEST_F(HugepagesTest, FindsTheMountOfTheDefaultSize) {
  write("mounts", "none / ext4 rw 0 0\nnone /nowhere hugetlbfs rw,pagesize=2M 0 0\nnone " +
                      proc_.string() + " hugetlbfs rw,pagesize=1G 0 0\nnone " + proc_.string() +
                      " hugetlbfs rw,relatime,pagesize=2M 0 0\n");
  const auto found = find_hugepages(proc_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, proc_.string());
  EXPECT_EQ(found->free_mb, 14u);
}

TEST_F(HugepagesTest, WhatOthersHaveReservedIsNotFree) {
  write("meminfo",
        "HugePages_Total: 10\nHugePages_Free:  7\nHugePages_Rsvd:  6\nHugepagesize:    2048 kB\n");
  const std::string mount = "none " + proc_.string() + " hugetlbfs rw,relatime,pagesize=2M";
  write("mounts", mount + " 0 0\n");
  EXPECT_EQ(find_hugepages(proc_)->free_mb, 2u);
  write("mounts", mount + ",size=8388608,min_size=8388608 0 0\n");
  EXPECT_EQ(find_hugepages(proc_)->free_mb, 8u);
}

TEST_F(HugepagesTest, NothingMountedIsNothing) {
  write("mounts", "none / ext4 rw 0 0\n");
  EXPECT_FALSE(find_hugepages(proc_));
}

TEST_F(HugepagesTest, UnlinksOnlyItsOwnFiles) {
  write("mineXmap_0", "");
  write("mine-map_0", "");
  write("minemap_0", "");
  write("minemap_1", "");
  unlink_hugepage_files(proc_.string(), "mine");
  EXPECT_FALSE(std::filesystem::exists(proc_ / "minemap_0"));
  EXPECT_FALSE(std::filesystem::exists(proc_ / "minemap_1"));
  EXPECT_TRUE(std::filesystem::exists(proc_ / "mine-map_0"));
  EXPECT_TRUE(std::filesystem::exists(proc_ / "mineXmap_0"));
}

TEST(HeapTunables, AddTheHeapsHugepagesToWhatIsSet) {
  EXPECT_EQ(heap_tunables(nullptr), "glibc.malloc.hugetlb=1");
  EXPECT_EQ(heap_tunables(""), "glibc.malloc.hugetlb=1");
  EXPECT_EQ(heap_tunables("glibc.malloc.perturb=1"),
            "glibc.malloc.perturb=1:glibc.malloc.hugetlb=1");
}

TEST(HeapTunables, LeaveAChoiceThatWasMade) {
  EXPECT_EQ(heap_tunables("glibc.malloc.hugetlb=0"), std::nullopt);
  EXPECT_EQ(heap_tunables("glibc.malloc.perturb=1:glibc.malloc.hugetlb=1"), std::nullopt);
}

}  // namespace
}  // namespace headrace::eal
