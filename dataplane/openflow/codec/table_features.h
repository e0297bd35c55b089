// SPDX-License-Identifier: Apache-2.0
// Table features: what each table can match and do. Every table of Headrace can do everything but
// go back, so a table's properties depend only on its number.
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

/// What a table can do or is asked to be able to do.
struct TableFeatures {
  uint8_t table_id{0};
  std::string name;
  uint32_t config{0};
  uint32_t max_entries{0};
  /// By ofp_table_feature_prop_type, what it lists, sorted: instructions, actions, tables, fields.
  std::map<uint16_t, std::vector<uint64_t>> properties;
};

/// Reads a request's array of ofp_table_features.
OfResult<std::vector<TableFeatures>> decode_table_features(Bytes body);

/// True if a table that offers `offer` can do all that is asked of it.
[[nodiscard]] bool satisfies(const TableFeatures& offer, const TableFeatures& asked);

}  // namespace headrace::openflow
