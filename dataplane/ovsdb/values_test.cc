// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/values.h"

#include <gtest/gtest.h>

#include "ovsdb/parse.h"

namespace headrace::ovsdb {
namespace {

constexpr const char* kUuid = "01234567-89ab-cdef-0123-456789abcdef";

Json parse(const char* text) {
  return Json::parse(text);
}

TEST(RowReader, ReadsEachShape) {
  const Json row = parse(R"({
    "name": "br0", "n": 5, "none": ["set", []], "one": "x", "one_set": ["set", ["x"]],
    "many": ["set", ["a", "b"]], "map": ["map", [["k", "v"], ["l", "w"]]],
    "ref": ["uuid", "01234567-89ab-cdef-0123-456789abcdef"],
    "refs": ["set", [["uuid", "01234567-89ab-cdef-0123-456789abcdef"]]]})");
  RowReader reader("T", "row", row);
  EXPECT_EQ(reader.string("name"), "br0");
  EXPECT_EQ(reader.integer("n"), 5);
  EXPECT_EQ(reader.optional_string("none"), std::nullopt);
  EXPECT_EQ(reader.optional_integer("none"), std::nullopt);
  EXPECT_EQ(reader.optional_string("one"), "x");
  EXPECT_EQ(reader.optional_string("one_set"), "x");
  EXPECT_EQ(reader.strings("many"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(reader.map("map"), (StringMap{{"k", "v"}, {"l", "w"}}));
  EXPECT_EQ(reader.uuids("ref"), std::vector<Uuid>{kUuid});
  EXPECT_EQ(reader.uuids("refs"), std::vector<Uuid>{kUuid});
  EXPECT_TRUE(reader.uuids("none").empty());
  EXPECT_TRUE(reader.status());
}

TEST(RowReader, NamesTheFirstColumnOfAWrongShape) {
  const Json row = parse(R"({"s": 5, "m": ["map", [["k"]]], "u": ["uuid", "nonsense"],
                             "set": ["set", 3], "two": ["set", ["a", "b"]]})");
  const auto error_of = [&](auto&& read) {
    RowReader reader("Port", "p1", row);
    read(reader);
    const auto status = reader.status();
    return status ? std::string("no error") : status.error().message;
  };
  EXPECT_EQ(error_of([](auto& r) { r.string("s"); }), "Port p1: column s is not of strings");
  EXPECT_EQ(error_of([](auto& r) { r.map("m"); }), "Port p1: column m is not a map of strings");
  EXPECT_EQ(error_of([](auto& r) { r.map("s"); }), "Port p1: column s is not a map");
  EXPECT_EQ(error_of([](auto& r) { r.uuids("u"); }), "Port p1: column u is not of UUIDs");
  EXPECT_EQ(error_of([](auto& r) { r.strings("set"); }), "Port p1: column set is not a set");
  EXPECT_EQ(error_of([](auto& r) { r.string("two"); }),
            "Port p1: column two is not at most one string");
  EXPECT_EQ(error_of([](auto& r) { r.integer("missing"); }),
            "Port p1: column missing is not there");
}

TEST(Values, WriteTheNotationOfRfc7047) {
  EXPECT_EQ(to_set({"a", "b"}), parse(R"(["set", ["a", "b"]])"));
  EXPECT_EQ(to_map(StringMap{{"k", "v"}}), parse(R"(["map", [["k", "v"]]])"));
  EXPECT_EQ(to_map(std::map<std::string, int64_t>{{"k", 3}}), parse(R"(["map", [["k", 3]]])"));
  EXPECT_EQ(to_uuid(kUuid), parse(R"(["uuid", "01234567-89ab-cdef-0123-456789abcdef"])"));
  EXPECT_EQ(to_optional(std::optional<int>{}), parse(R"(["set", []])"));
  EXPECT_EQ(to_optional(std::optional<int>{4}), parse("4"));
}

TEST(Parse, DatapathId) {
  EXPECT_EQ(parse_datapath_id("0x1"), 1);
  EXPECT_EQ(parse_datapath_id("00000000000000ab"), 0xab);
  EXPECT_EQ(parse_datapath_id("ffffffffffffffff"), UINT64_MAX);
  for (const char* bad : {"", "0", "0x", "g", "-1", "00000000000000001", "1 "}) {
    EXPECT_FALSE(parse_datapath_id(bad)) << bad;
  }
}

TEST(Parse, CpuMask) {
  EXPECT_EQ(parse_cpu_mask("0x2"), (std::vector<unsigned>{1}));
  EXPECT_EQ(parse_cpu_mask("1000000000000000f"), (std::vector<unsigned>{0, 1, 2, 3, 64}));
  for (const char* bad : {"", "0", "0x", "xyz", "-2"}) {
    EXPECT_FALSE(parse_cpu_mask(bad)) << bad;
  }
}

TEST(Parse, RxqAffinity) {
  EXPECT_EQ(parse_rxq_affinity("0:3,1:7"), (std::map<uint16_t, unsigned>{{0, 3}, {1, 7}}));
  EXPECT_EQ(parse_rxq_affinity(""), (std::map<uint16_t, unsigned>{}));
  for (const char* bad : {"0", "0:", ":1", "0:1,0:2", "65536:1", "a:b"}) {
    EXPECT_FALSE(parse_rxq_affinity(bad)) << bad;
  }
}

}  // namespace
}  // namespace headrace::ovsdb
