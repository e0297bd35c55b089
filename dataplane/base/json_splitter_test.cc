// SPDX-License-Identifier: Apache-2.0
#include "base/json_splitter.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

using Messages = std::vector<std::string>;

TEST(JsonSplitter, CutsMessagesWithoutSeparators) {
  JsonSplitter splitter;
  Messages messages;
  ASSERT_TRUE(splitter.feed(R"({"a":1}{"b":[{}]} {"c":2})", messages));
  EXPECT_EQ(messages, (Messages{R"({"a":1})", R"({"b":[{}]})", R"({"c":2})"}));
}

TEST(JsonSplitter, GivesTheSameForEveryCutOfTheStream) {
  const std::string stream = R"({"s":"}\"{\\"}{"t":["]"]})";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    JsonSplitter splitter;
    Messages messages;
    ASSERT_TRUE(splitter.feed(stream.substr(0, cut), messages));
    ASSERT_TRUE(splitter.feed(stream.substr(cut), messages));
    EXPECT_EQ(messages, (Messages{R"({"s":"}\"{\\"})", R"({"t":["]"]})"})) << "cut at " << cut;
  }
}

TEST(JsonSplitter, RefusesWhatStartsNoObject) {
  Messages messages;
  for (const char* text : {"[1]", "}", "x", "\"{}\"", "{} 1"}) {
    EXPECT_FALSE(JsonSplitter().feed(text, messages)) << text;
  }
}

TEST(JsonSplitter, BoundsSizeAndDepth) {
  Messages messages;
  JsonSplitter small(16);
  EXPECT_TRUE(small.feed(R"({"a":"12345678"})", messages));  // exactly 16 bytes
  EXPECT_FALSE(small.feed(R"({"a":"123456789"})", messages));
  EXPECT_FALSE(
      JsonSplitter().feed("{\"a\":" + std::string(JsonSplitter::kMaxDepth, '['), messages));
  EXPECT_TRUE(
      JsonSplitter().feed("{\"a\":" + std::string(JsonSplitter::kMaxDepth - 1, '['), messages));
}

}  // namespace
}  // namespace headrace
