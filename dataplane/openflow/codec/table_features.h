// SPDX-License-Identifier: Apache-2.0
// Table features: what each table can match and do. Every table of Headrace can do everything but
// go back, so a table's properties depend only on its number.
//
// Source: OpenFlow 1.3.5, section 7.3.5.5.
#pragma once

#include "openflow/codec/wire.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// Appends an ofp_table_features with all its properties.
void encode_table_features(Writer& writer, const pipeline::TableStats& table);

}  // namespace headrace::openflow
