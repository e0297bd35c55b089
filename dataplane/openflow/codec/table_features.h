// SPDX-License-Identifier: Apache-2.0
// Table features: what each table can match and do. Every table of Headrace supports everything
// except a goto to a lower table, so a table's properties depend only on its number.
//
// Source: OpenFlow 1.3.5, section 7.3.5.5.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "openflow/codec/errors.h"
#include "openflow/codec/wire.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// Appends an ofp_table_features with all its properties.
void encode_table_features(Writer& writer, const pipeline::TableStats& table,
                           std::string_view name);

/// The features that a table has, or that a request asks for.
struct TableFeatures {
  uint8_t table_id{0};
  std::string name;
  uint32_t config{0};
  uint32_t max_entries{0};
  /// By ofp_table_feature_prop_type: the listed instructions, actions, tables or fields, sorted.
  std::map<uint16_t, std::vector<uint64_t>> properties;
};

/// Decodes a request's array of ofp_table_features.
OfResult<std::vector<TableFeatures>> decode_table_features(Bytes body);

/// Whether a table that offers `offer` supports everything in `asked`.
[[nodiscard]] bool satisfies(const TableFeatures& offer, const TableFeatures& asked);

}  // namespace headrace::openflow
