// SPDX-License-Identifier: Apache-2.0
#include "base/virtual_array.h"

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace headrace {
namespace {

constexpr size_t kElements = size_t{4} << 20;

/// Resident KiB of the mapping that holds `address`, by /proc/self/smaps.
uint64_t resident_kib(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2) {
      inside = begin <= wanted && wanted < end;
    } else if (inside && std::sscanf(line.c_str(), "Rss: %" SCNu64, &kib) == 1) {
      return kib;
    }
  }
  ADD_FAILURE() << "no mapping holds the array";
  return 0;
}

TEST(VirtualArray, AFewElementsTakeAPage) {
  VirtualArray<uint64_t> array(kElements, Pages::as_used);
  EXPECT_EQ(resident_kib(array.data()), 0u);
  array.expect(100);
  array[100] = 1;
  array[kElements / 2] = 1;  // another worker's
  EXPECT_LE(resident_kib(array.data()), 8u);
  EXPECT_EQ(array[101], 0u);
}

TEST(VirtualArray, ManyElementsStayWhatTheyAre) {
  VirtualArray<uint64_t> array(kElements, Pages::as_used);
  for (size_t i = 0; i < kElements; ++i) {
    array.expect(i);
    array[i] = i;
  }
  for (size_t i = 0; i < kElements; ++i) ASSERT_EQ(array[i], i);
  EXPECT_GE(resident_kib(array.data()), kElements * sizeof(uint64_t) / 1024);
  array.give_back(0, kElements);
  EXPECT_EQ(resident_kib(array.data()), 0u);
  EXPECT_EQ(array[5], 0u);
}

}  // namespace
}  // namespace headrace
