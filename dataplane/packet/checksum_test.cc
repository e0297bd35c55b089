// SPDX-License-Identifier: Apache-2.0
#include "packet/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace headrace::packet {
namespace {

std::vector<uint8_t> random_bytes(std::mt19937& random, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& each : bytes) each = static_cast<uint8_t>(random());
  return bytes;
}

TEST(ChecksumTest, ExampleOfRfc1071) {
  // Section 3: the sum of 00 01 f2 03 f4 f5 f6 f7 is dd f2.
  const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
  EXPECT_EQ(swap16(fold(sum_of(bytes))), 0xddf2);
}

TEST(ChecksumTest, KnownIpv4Header) {
  const uint8_t header[] = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                            0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
  EXPECT_EQ(checksum(header), 0);
}

TEST(ChecksumTest, OddSizesArePaddedWithZero) {
  std::mt19937 random(1);
  for (size_t size = 1; size < 40; size += 2) {
    std::vector<uint8_t> bytes = random_bytes(random, size);
    const uint16_t odd = checksum(bytes);
    bytes.push_back(0);
    EXPECT_EQ(odd, checksum(bytes));
  }
}

TEST(ChecksumTest, IncrementalUpdatesEqualAFullSum) {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> bytes = random_bytes(random, 40);
    if (i % 10 == 0) std::fill(bytes.begin(), bytes.end(), uint8_t{0xff});
    const uint16_t before = checksum(bytes);
    const size_t at = random() % 12 * 2;
    const std::vector<uint8_t> old(bytes.begin(), bytes.end());
    const std::vector<uint8_t> change = random_bytes(random, 16);
    std::copy(change.begin(), change.end(), bytes.begin() + static_cast<long>(at));
    const uint16_t after = checksum(bytes);
    EXPECT_EQ(update_bytes(before, &old[at], &bytes[at], 16), after);
    uint16_t by_words = before;
    for (size_t k = at; k < at + 16; k += 4) {
      by_words = update32(by_words, load_raw32(&old[k]), load_raw32(&bytes[k]));
    }
    EXPECT_EQ(by_words, after);
    uint16_t by_halves = before;
    for (size_t k = at; k < at + 16; k += 2) {
      by_halves = update16(by_halves, load_raw16(&old[k]), load_raw16(&bytes[k]));
    }
    EXPECT_EQ(by_halves, after);
  }
}

TEST(Crc32cTest, KnownValue) {
  // The check value of CRC-32C: RFC 3720, B.4 uses the same polynomial.
  constexpr std::string_view kDigits = "123456789";
  const std::vector<uint8_t> bytes(kDigits.begin(), kDigits.end());
  EXPECT_EQ(crc32c_portable(bytes), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes), 0xe3069283u);
}

TEST(Crc32cTest, VariantsAgreeAndContinue) {
  std::mt19937 random(3);
  for (size_t size = 0; size < 200; ++size) {
    const std::vector<uint8_t> bytes = random_bytes(random, size);
    const uint32_t whole = crc32c(bytes);
    EXPECT_EQ(whole, crc32c_portable(bytes));
    const size_t cut = size / 3;
    const std::span<const uint8_t> all(bytes);
    EXPECT_EQ(whole, crc32c(all.subspan(cut), crc32c(all.first(cut))));
  }
}

}  // namespace
}  // namespace headrace::packet
