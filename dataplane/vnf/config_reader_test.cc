// SPDX-License-Identifier: Apache-2.0
#include "vnf/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vnf/program_config.h"

namespace headrace::vnf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Address, ParsesWhatOperatorsWriteAndNothingElse) {
  EXPECT_EQ(parse_ipv4("10.0.0.1"), 0x0a000001U);
  EXPECT_FALSE(parse_ipv4("10.0.0"));
  EXPECT_EQ(parse_ipv4_prefix("10.0.0.0/8"), (Ipv4Prefix{0x0a000000, 8}));
  EXPECT_EQ(parse_ipv4_prefix("0.0.0.0/0"), (Ipv4Prefix{0, 0}));
  EXPECT_EQ(parse_ipv4_prefix("10.0.0.1"), (Ipv4Prefix{0x0a000001, 32}));
  for (const char* bad : {"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "/8", "x/8"}) {
    EXPECT_FALSE(parse_ipv4_prefix(bad)) << bad;
  }
  EXPECT_EQ(ipv4_text(0x0a0000ff), "10.0.0.255");
}

TEST(ConfigReader, NamesEveryMistakeByItsPath) {
  const Json json = Json::parse(R"({"n": -1, "s": 5, "list": [{"m": "02"}, 7], "extra": 1})");
  ConfigErrors errors;
  ConfigReader reader(json, "", errors);
  reader.integer("n", 0, 9);
  reader.string("s");
  reader.string("gone");
  for (auto& child : reader.children("list")) {
    child.optional_mac("m");
    child.finish();
  }
  reader.finish();
  EXPECT_THAT(errors, ElementsAre("n: -1 is not an integer from 0 to 9", "s: not a string",
                                  "gone: missing", "list[1]: not an object",
                                  "list[0].m: \"02\" is not a MAC address (xx:xx:xx:xx:xx:xx)",
                                  "extra: unknown member"));
}

ConfigErrors program_errors(const char* text) {
  const Json json = Json::parse(text);
  ConfigErrors errors;
  ConfigReader reader(json, "", errors);
  read_program(reader);
  return errors;
}

TEST(ProgramConfig, ReadsAWholeFile) {
  const Json json = Json::parse(R"({
    "eal": {"file_prefix": "vnf1", "memory_mb": 64, "hugepages": "off"}, "cpu": 1, "idle": "sleep",
    "sleep_us": 200, "burst": 64,
    "ports": [{"name": "a", "devargs": "net_null0", "mac": "02:00:00:00:00:01"},
              {"name": "b", "interface": "veth0"}],
    "function": {"mac": "swap"}})");
  ConfigErrors errors;
  ConfigReader reader(json, "", errors);
  const auto program = read_program(reader);
  EXPECT_THAT(errors, IsEmpty());
  EXPECT_EQ(program.file_prefix, "vnf1");
  EXPECT_FALSE(program.allow_hugepages);
  EXPECT_EQ(program.idle, Idle::sleep);
  EXPECT_EQ(program.sleep, std::chrono::microseconds(200));
  EXPECT_EQ(program.burst, 64);
  ASSERT_EQ(program.ports.size(), 2U);
  EXPECT_EQ(program.ports[0].mac, (MacAddress{2, 0, 0, 0, 0, 1}));
  EXPECT_EQ(program.ports[1].devargs, "net_af_packet_vnf1,iface=veth0");
  EXPECT_EQ(program.function, (Json{{"mac", "swap"}}));
}

TEST(ProgramConfig, RefusesWhatCannotRun) {
  EXPECT_THAT(program_errors("{}"), ElementsAre("ports: a function needs at least one port"));
  EXPECT_THAT(program_errors(R"({"ports": [{"name": "a"}]})"),
              ElementsAre("ports[0].devargs: give one of `devargs` (a DPDK device), `interface` (a "
                          "kernel's) and `shm` (a Headrace port)"));
  EXPECT_THAT(program_errors(R"({"ports": [{"name": "a", "devargs": "net_null0"},
                                             {"name": "a", "devargs": "net_null1"}]})"),
              ElementsAre("ports[1].name: two ports have this name"));
  EXPECT_THAT(program_errors(R"({"ports": [{"name": "a", "devargs": "net_null0"}], "burst": 65})"),
              ElementsAre("burst: 65 is not an integer from 1 to 64"));
}

}  // namespace
}  // namespace headrace::vnf
