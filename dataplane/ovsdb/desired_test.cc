// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/desired.h"

#include <gtest/gtest.h>

#include "ovsdb/test_rows.h"

namespace headrace::ovsdb {
namespace {

class DesiredReaderTest : public ::testing::Test {
 protected:
  DesiredReaderTest() {
    Json tables = Json::object();
    for (int64_t bridge = 0; bridge < 3; ++bridge) {
      add_bridge(tables, bridge);
    }
    add_root(tables, 3, 1);
    take(tables);
  }

  void take(const Json& tables) {
    const auto applied = database_.apply(tables);
    ASSERT_TRUE(applied) << applied.error().message;
  }

  std::vector<std::shared_ptr<const BridgeRow>> bridges() {
    const auto desired = reader_.read(database_);
    EXPECT_TRUE(desired) << desired.error().message;
    return desired ? desired->bridges : std::vector<std::shared_ptr<const BridgeRow>>{};
  }

  /// Port `port` of a bridge, with the QoS row of these tests.
  static Json port_with_qos(int64_t bridge, int64_t port) {
    return fresh("Port", {{"name", fmt::format("br{}p{}", bridge, port)},
                          {"interfaces", to_uuid(uuid_of(3, bridge, port))},
                          {"qos", to_uuid(uuid_of(4, 0))}});
  }

  static Json qos(const std::string& rate) {
    return fresh("QoS", {{"type", "linux-htb"},
                         {"queues", to_map(StringMap{})},
                         {"other_config", to_map(StringMap{{"max-rate", rate}})}});
  }

  Database database_;
  DesiredReader reader_;
};

TEST_F(DesiredReaderTest, ReadsAgainOnlyTheBridgeThatAChangeConcerns) {
  const auto before = bridges();
  ASSERT_EQ(before.size(), 3);
  EXPECT_EQ(bridges(), before);
  Json tables = Json::object();
  tables["Interface"][uuid_of(3, 1, 2)] = interface_row(1, 2, 9000);
  take(tables);
  const auto after = bridges();
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[2], before[2]);
  ASSERT_NE(after[1], before[1]);
  EXPECT_EQ(after[1]->interfaces[2].spec.mtu, 9000);
  EXPECT_EQ(before[1]->interfaces[2].spec.mtu, 1500);
}

TEST_F(DesiredReaderTest, ARowOfTwoBridgesConcernsBoth) {
  Json tables = Json::object();
  tables["QoS"][uuid_of(4, 0)] = qos("1000");
  tables["Port"][uuid_of(2, 0, 1)] = port_with_qos(0, 1);
  tables["Port"][uuid_of(2, 2, 3)] = port_with_qos(2, 3);
  take(tables);
  const auto before = bridges();
  tables = Json::object();
  tables["QoS"][uuid_of(4, 0)] = qos("2000");
  take(tables);
  const auto after = bridges();
  EXPECT_EQ(after[0]->interfaces[1].spec.qos->max_rate_bps, 2000);
  EXPECT_EQ(after[2]->interfaces[3].spec.qos->max_rate_bps, 2000);
  EXPECT_EQ(after[1], before[1]);
}

TEST_F(DesiredReaderTest, ABridgeThatGoesAndComesAgainIsReadAnew) {
  const auto before = bridges();
  Json tables = Json::object();
  add_root(tables, 2, 2);
  tables["Bridge"][uuid_of(1, 2)] = Json{{"old", Json::object()}};
  take(tables);
  EXPECT_EQ(bridges().size(), 2);
  tables = Json::object();
  add_root(tables, 3, 3);
  add_bridge(tables, 2);
  take(tables);
  const auto after = bridges();
  ASSERT_EQ(after.size(), 3);
  EXPECT_NE(after[2], before[2]);
  EXPECT_EQ(after[1], before[1]);
}

TEST_F(DesiredReaderTest, AnotherSessionHasNothingInCommonWithTheOneBefore) {
  const auto before = bridges();
  database_.clear();
  Json tables = Json::object();
  add_bridge(tables, 0);
  add_root(tables, 1, 1);
  take(tables);
  const auto after = bridges();
  ASSERT_EQ(after.size(), 1);
  EXPECT_NE(after[0], before[0]);
}

TEST_F(DesiredReaderTest, ARowThatIsMissingIsAnErrorUntilItComes) {
  ASSERT_EQ(bridges().size(), 3);
  Json tables = Json::object();
  tables["Interface"][uuid_of(3, 1, 2)] = Json{{"old", Json::object()}};
  take(tables);
  EXPECT_FALSE(reader_.read(database_));
  tables["Interface"][uuid_of(3, 1, 2)] = interface_row(1, 2, 1600);
  take(tables);
  EXPECT_EQ(bridges().at(1)->interfaces[2].spec.mtu, 1600);
}

}  // namespace
}  // namespace headrace::ovsdb
