// SPDX-License-Identifier: Apache-2.0
#include "vnf/yaml.h"

#include <gmock/gmock.h>

namespace headrace::vnf {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json good(const std::string& text) {
  auto json = json_of_yaml(text);
  EXPECT_TRUE(json) << json.error().message;
  return json ? *json : Json();
}

std::string error_of(const std::string& text) {
  const auto json = json_of_yaml(text);
  EXPECT_FALSE(json) << *json;
  return json ? "" : json.error().message;
}

TEST(Yaml, GivesTheJsonThatItMeans) {
  EXPECT_EQ(good("# a VNF\n"
                 "cpu: 0\n"
                 "idle: sleep\n"
                 "ports:\n"
                 "  - {name: \"0\", devargs: 'net_null0,size=60', mac: 02:00:00:00:00:01}\n"
                 "  - name: b\n"
                 "function: {mac: swap, list: [1, -2, 0x10, 1.5, 1e3, true, ~, yes]}\n"),
            Json::parse(R"({"cpu": 0, "idle": "sleep",
              "ports": [{"name": "0", "devargs": "net_null0,size=60", "mac": "02:00:00:00:00:01"},
                        {"name": "b"}],
              "function": {"mac": "swap", "list": [1, -2, 16, 1.5, 1000.0, true, null, "yes"]}})"));
  EXPECT_TRUE(good("n: 18446744073709551615")["n"].is_number_unsigned());
  EXPECT_EQ(good("n: 10.0.0.1")["n"], "10.0.0.1");
  EXPECT_EQ(good("n: '7'")["n"], "7");
  EXPECT_EQ(good("a: &x {b: 1}\nc: *x")["c"]["b"], 1);
  EXPECT_EQ(good(""), Json());
}

TEST(Yaml, TellsThePlaceOfAMistake) {
  EXPECT_THAT(error_of("a: 1\nb: [1, 2\n"), HasSubstr("line "));
  EXPECT_THAT(error_of("a: 1\n  b: 2\n"), HasSubstr("line 2, column "));
  EXPECT_EQ(error_of("a: 1\nb: 2\na: 3\n"), "line 3, column 1: 'a' is there already");
  EXPECT_EQ(error_of("[1, 2]: 3\n"), "line 1, column 1: a key that is no scalar");
  EXPECT_EQ(error_of("a: 1\nb: x\xff"), "line 2, column 4: not UTF-8");
  EXPECT_EQ(error_of("a: 1\n\"x\xc0\x80\": 1"), "line 2, column 1: not UTF-8");
  EXPECT_EQ(error_of("a: \"\xed\xa0\x80\""), "line 1, column 4: not UTF-8");
  EXPECT_EQ(good("a: \xc3\xa4\xe2\x82\xac\xf0\x9f\x92\xa7")["a"].dump(),
            "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x92\xa7\"");
  EXPECT_THAT(error_of(std::string(100, '[') + std::string(100, ']')), HasSubstr("deep"));
}

}  // namespace
}  // namespace headrace::vnf
