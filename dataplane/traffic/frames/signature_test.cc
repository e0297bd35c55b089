// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/signature.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace headrace::traffic {
namespace {

/// A frame of `length` octets of 0xee whose signature is followed by `padding` zeros.
std::vector<uint8_t> frame(unsigned length, unsigned padding) {
  std::vector<uint8_t> octets(length, 0xee);
  std::fill(octets.end() - padding, octets.end(), 0);
  Signature{.stream = 3, .sequence = 77, .time = 0, .run = 0}.write(octets.data() + length -
                                                                    padding - Signature::kBytes);
  return octets;
}

TEST(Signature, IsFoundBeforeThePaddingOfOneOrTwoTags) {
  for (const unsigned padding : {4U, 8U}) {
    for (const unsigned length : {60U, 64U, 68U}) {
      const auto octets = frame(length, padding);
      const auto found = Signature::read_padded(octets.data(), length);
      ASSERT_TRUE(found) << length << " " << padding;
      EXPECT_EQ(found->sequence, 77U);
      EXPECT_EQ(found->stream, 3);
    }
  }
}

TEST(Signature, IsNotFoundElsewhere) {
  const auto longer = frame(72, 4);
  EXPECT_FALSE(Signature::read_padded(longer.data(), 72));
  auto changed = frame(60, 4);
  changed[58] = 1;  // no padding
  EXPECT_FALSE(Signature::read_padded(changed.data(), 60));
  const auto odd = frame(60, 2);
  EXPECT_FALSE(Signature::read_padded(odd.data(), 60));
  const auto tiny = frame(20, 4);
  EXPECT_FALSE(Signature::read_padded(tiny.data(), 20));
}

}  // namespace
}  // namespace headrace::traffic
