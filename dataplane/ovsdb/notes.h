// SPDX-License-Identifier: Apache-2.0
// Settings that have no effect: reported in the status columns of their row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ovsdb/switch_control.h"

namespace headrace::ovsdb {

/// Sentences, each naming a column, the problem and what to do instead.
using Notes = std::vector<std::string>;

/// The notes as one text.
std::string joined(const Notes& notes);

/// Adds a note for every key of the column `other_config` that is not in `supported`. `place`
/// precedes the column's name, e.g. "QoS ".
void note_other_config(const StringMap& config, std::vector<std::string_view> supported,
                       std::string_view place, Notes& notes);

}  // namespace headrace::ovsdb
