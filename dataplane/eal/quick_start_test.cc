// SPDX-License-Identifier: Apache-2.0
#include "eal/quick_start.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace headrace::eal {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(QuickStart, ReadsTheListsOfSysfs) {
  EXPECT_EQ(last_of("0"), 0U);
  EXPECT_EQ(last_of("0-3"), 3U);
  EXPECT_EQ(last_of("0-3,8,10-11"), 11U);
  EXPECT_FALSE(last_of(""));
  EXPECT_FALSE(last_of("0-3x"));
}

TEST(QuickStart, KnowsWhatTheMachineCannotHave) {
  const Possible two{.cpu = 1, .node = 0};
  EXPECT_FALSE(is_impossible("/sys/devices/system/cpu/cpu1/topology/core_id", two));
  EXPECT_TRUE(is_impossible("/sys/devices/system/cpu/cpu2/topology/core_id", two));
  EXPECT_FALSE(is_impossible("/sys/devices/system/node/node0/cpu1", two));
  EXPECT_TRUE(is_impossible("/sys/devices/system/node/node0/cpu2", two));
  EXPECT_TRUE(is_impossible("/sys/devices/system/node/node1/cpu0", two));
  EXPECT_FALSE(is_impossible("/sys/devices/system/node/node0/hugepages", two));
  EXPECT_FALSE(is_impossible("/sys/devices/system/cpu/cpufreq", two));
  EXPECT_FALSE(is_impossible("/dev/hugepages", two));
}

TEST(QuickStart, HidesOneFolderWhileItLives) {
  struct stat64 found {};
  EXPECT_EQ(::stat64("/proc", &found), 0);
  {
    const QuickStart quick("/proc");
    EXPECT_EQ(::stat64("/proc", &found), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(::stat64("/proc/self", &found), 0);
  }
  EXPECT_EQ(::stat64("/proc", &found), 0);
  EXPECT_TRUE(S_ISDIR(found.st_mode));
}

TEST(QuickStart, ChangesTheOtherTwoFunctionsOnlyWhileItLives) {
  const char* const absent = "/sys/devices/system/cpu/cpu100000";
  for (const bool quick : {false, true, false}) {
    std::optional<QuickStart> scope;
    if (quick) scope.emplace();
    errno = 0;
    EXPECT_EQ(::access(absent, F_OK), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(::access("/proc/self/status", R_OK), 0);
    const Clock::time_point begin = Clock::now();
    const timespec calibration{.tv_sec = 0, .tv_nsec = 100'000'000};
    EXPECT_EQ(::nanosleep(&calibration, nullptr), 0);
    const auto slept = Clock::now() - begin;
    EXPECT_GE(slept, quick ? milliseconds(10) : milliseconds(100));
    if (!quick) continue;
    const Clock::time_point again = Clock::now();
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_GE(Clock::now() - again, milliseconds(30));
  }
  const timespec wrong{.tv_sec = 0, .tv_nsec = -1};
  EXPECT_EQ(::nanosleep(&wrong, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace headrace::eal
