// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/stream.h"

#include <gtest/gtest.h>

namespace headrace::traffic {
namespace {

using nlohmann::json;

json plain() {
  return {{"name", "ab"}, {"tx_port", "a"}, {"rx_port", "b"}};
}

std::string refusal(const json& list) {
  const auto streams = read_streams(list, "/streams");
  return streams ? std::string() : streams.error().message;
}

std::string refusal_with(const char* key, const json& value) {
  json stream = plain();
  stream[key] = value;
  return refusal(json::array({stream}));
}

TEST(Stream, DefaultsAndShorthands) {
  json stream = plain();
  stream.update({{"dst_mac", "02:aa:bb:cc:dd:ee"},
                 {"src_ip", "10.0.0.1"},
                 {"dst_ip", "10.9.8.7"},
                 {"dst_port", 53},
                 {"vlan", 100},
                 {"flows", 16}});
  const auto streams = read_streams(json::array({plain(),
                                                 [] {
                                                   json other = plain();
                                                   other["name"] = "ba";
                                                   other["src_ip"] = "2001:db8::1";
                                                   other["size"] = 128;
                                                   return other;
                                                 }()}),
                                    "/streams");
  ASSERT_TRUE(streams) << streams.error().message;
  EXPECT_EQ((*streams)[0].frames.length(0), 60);
  EXPECT_EQ((*streams)[0].share, 1);
  EXPECT_TRUE((*streams)[1].frames.needs_finish()) << "IPv6 after its address";

  const auto one = read_streams(json::array({stream}), "/streams");
  ASSERT_TRUE(one) << one.error().message;
  uint8_t frame[2048];
  one->front().frames.write(frame, 0, 15);
  const uint8_t begin[] = {0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x02, 0,
                           0,    0,    0,    1,    0x81, 0,    0,    100};
  EXPECT_EQ(std::memcmp(frame, begin, sizeof begin), 0);
  const uint8_t addresses[] = {10, 0, 0, 1, 10, 9, 8, 7 + 15};
  EXPECT_EQ(std::memcmp(frame + 30, addresses, sizeof addresses), 0);
  EXPECT_EQ(frame[41], 53);
}

TEST(Stream, ErrorsNameTheMember) {
  EXPECT_NE(refusal(json::array()).find("/streams:"), std::string::npos);
  EXPECT_NE(refusal(json::array({7})).find("/streams/0"), std::string::npos);
  EXPECT_NE(refusal(json::array({{{"name", "x"}, {"tx_port", "a"}}})).find("/streams/0/rx_port"),
            std::string::npos);
  EXPECT_NE(refusal(json::array({plain(), plain()})).find("/streams/1/name"), std::string::npos);
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, json>>{{"size", 63},
                                                 {"size", "imix"},
                                                 {"flows", 0},
                                                 {"flows", -1},
                                                 {"flows", 2'000'000},
                                                 {"share", 0},
                                                 {"share", "much"},
                                                 {"src_mac", "02:00"},
                                                 {"dst_ip", "10.0.0.256"},
                                                 {"dst_port", 65536},
                                                 {"vlan", 4096},
                                                 {"colour", "blue"},
                                                 {"vary", "ipv4_dst"},
                                                 {"layers", "udp"}}) {
    EXPECT_NE(refusal_with(key, value).find(std::string("/streams/0/") + key), std::string::npos)
        << key << ": " << refusal_with(key, value);
  }
  json stream = plain();
  stream.update({{"flows", 2}, {"vary", {{{"field", "ipv4_dst"}, {"steps", 3}}}}});
  EXPECT_NE(refusal(json::array({stream})).find("/streams/0/vary/0/steps"), std::string::npos);
}

}  // namespace
}  // namespace headrace::traffic
