// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/size_profile.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headrace::traffic {
namespace {

TEST(SizeProfile, NamedImixesHaveTheirPublishedMeans) {
  const auto nfvbench = SizeProfile::imix("imix-nfvbench");
  ASSERT_TRUE(nfvbench);
  EXPECT_NEAR(nfvbench->mean(), 361.83, 0.005);
  EXPECT_EQ(nfvbench->sizes, (std::vector<uint16_t>{64, 594, 1518}));
  EXPECT_EQ(nfvbench->weights, (std::vector<uint32_t>{7, 4, 1}));
  const auto csit = SizeProfile::imix("imix-csit");
  ASSERT_TRUE(csit);
  EXPECT_NEAR(csit->mean(), 353.83, 0.005);
  EXPECT_EQ(csit->weights, (std::vector<uint32_t>{7, 4, 1})) << "28:16:4 without common factor";
  const auto vsperf = SizeProfile::imix("imix-genome:aaaaaaaddddg");
  ASSERT_TRUE(vsperf);
  EXPECT_NEAR(vsperf->mean(), 334.5, 0.005);
}

TEST(SizeProfile, PatternHasEachSizeAsOftenAsItsWeightAndSpread) {
  const auto profile = SizeProfile::imix("imix-nfvbench");
  ASSERT_TRUE(profile);
  ASSERT_EQ(profile->pattern.size(), 12U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::count(profile->pattern.begin(), profile->pattern.end(), i), profile->weights[i]);
  }
  for (size_t i = 0; i + 1 < 12; ++i) {
    EXPECT_FALSE(profile->pattern[i] == 1 && profile->pattern[i + 1] == 1) << "594 B back to back";
  }
}

TEST(SizeProfile, GenomeKeepsItsOrder) {
  const auto profile = SizeProfile::imix("imix-genome:gacz");
  ASSERT_TRUE(profile);
  std::vector<uint16_t> sizes;
  for (const uint8_t index : profile->pattern) sizes.push_back(profile->sizes[index]);
  EXPECT_EQ(sizes, (std::vector<uint16_t>{1518, 64, 256, 9018}));
}

TEST(SizeProfile, WrongOnesAreRefused) {
  EXPECT_FALSE(SizeProfile::fixed(63));
  EXPECT_FALSE(SizeProfile::fixed(9019));
  EXPECT_TRUE(SizeProfile::fixed(9018));
  EXPECT_FALSE(SizeProfile::imix("imix"));
  EXPECT_FALSE(SizeProfile::imix("imix-genome:"));
  EXPECT_FALSE(SizeProfile::imix("imix-genome:ax"));
  EXPECT_FALSE(SizeProfile::from_json(nlohmann::json(64.5)));
  EXPECT_FALSE(SizeProfile::from_json(nlohmann::json(-64)));
  EXPECT_EQ(SizeProfile::from_json(nlohmann::json(128))->mean(), 128);
}

}  // namespace
}  // namespace headrace::traffic
