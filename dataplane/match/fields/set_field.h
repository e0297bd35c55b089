// SPDX-License-Identifier: Apache-2.0
// Set-field: writes a field to the packet and to its FlowKey, so that later tables match the
// new value.
//
// The compiler asks once for the function of a field; the packet path calls it through the pointer.
// Fields that are no header of the packet (tunnel_id, metadata) change only the FlowKey.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>

#include "match/fields/fields.h"
#include "packet/parse.h"

namespace headrace::match {

/// `value`: network order, info(field).bytes octets. False: the packet lacks the header, and
/// nothing changed. `parsed` is brought up to date where the field decides what follows (eth_type,
/// ip_proto).
using SetField = bool (*)(rte_mbuf* packet, packet::ParsedPacket& parsed, FlowKey& values,
                          const uint8_t* value) noexcept;

/// The function of a field; null for one that set-field may not name.
[[nodiscard]] SetField set_field_for(Field field) noexcept;

/// The words whose presence in the extractor's depth the set-field of `field` relies on.
[[nodiscard]] WordSet words_of_set_field(Field field) noexcept;

}  // namespace headrace::match
