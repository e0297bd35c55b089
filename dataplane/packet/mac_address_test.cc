// SPDX-License-Identifier: Apache-2.0
#include "packet/mac_address.h"

#include <gtest/gtest.h>

namespace headrace::packet {
namespace {

TEST(MacAddress, IsReadFromSixGroupsOfHexadecimalDigits) {
  EXPECT_EQ(parse_mac("02:00:00:00:AB:01"), (MacAddress{2, 0, 0, 0, 0xab, 1}));
  EXPECT_EQ(parse_mac("2:0:0:0:ab:1"), (MacAddress{2, 0, 0, 0, 0xab, 1}));
  for (const char* bad :
       {"", "02", "02:00:00:00:00", "02:00:00:00:00:", ":02:00:00:00:00", "02-00-00-00-00-01",
        "02:00:00:00:00:0g", "02:00:00:00:00:011", "02:00:00:00:00:01:", " 02:00:00:00:00:01",
        "02:00:00:00:00:-1", "02:00:00:00:00:01 ", "002:00:00:00:00:01"}) {
    EXPECT_FALSE(parse_mac(bad)) << bad;
  }
}

TEST(MacAddress, IsWrittenAsItIsRead) {
  const MacAddress mac{0x02, 0, 0x0a, 0xff, 0xab, 1};
  EXPECT_EQ(format_mac(mac), "02:00:0a:ff:ab:01");
  EXPECT_EQ(parse_mac(format_mac(mac)), mac);
}

TEST(MacAddress, OfANameIsLocalUnicastAndStable) {
  const MacAddress mac = mac_from_name("memif0");
  EXPECT_EQ(mac[0] & 3, 2);
  EXPECT_EQ(mac_from_name("memif0"), mac);
  EXPECT_NE(mac_from_name("memif1"), mac);
}

}  // namespace
}  // namespace headrace::packet
