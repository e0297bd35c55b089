// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/table_features.h"

#include <array>
#include <string>

#include "match/fields/fields.h"
#include "openflow/codec/oxm.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {
namespace {

/// ofp_table_feature_prop_type; each but match and wildcards has a twin for the table-miss entry at
/// the next number.
enum class Property : uint16_t {
  instructions = 0,
  next_tables = 2,
  write_actions = 4,
  apply_actions = 6,
  match = 8,
  wildcards = 10,
  write_set_field = 12,
  apply_set_field = 14,
};

constexpr std::array<uint16_t, 6> kInstructions = {1, 2, 3, 4, 5, 6};
constexpr std::array<uint16_t, 16> kActions = {0,  11, 12, 15, 16, 17, 18, 19,
                                               20, 21, 22, 23, 24, 25, 26, 27};

template <typename Write>
void property(Writer& writer, uint16_t type, Write&& write) {
  const size_t start = writer.size();
  writer.u16(type);
  writer.u16(0);
  write(writer);
  writer.patch16(start + 2, writer.size() - start);
  writer.pad8(start);
}

/// The property and its twin for table-miss.
template <typename Write>
void property_pair(Writer& writer, Property type, Write&& write) {
  property(writer, static_cast<uint16_t>(type), write);
  property(writer, static_cast<uint16_t>(static_cast<uint16_t>(type) + 1), write);
}

/// Types without parameters: ofp_instruction and ofp_action_header, 4 octets each.
template <size_t N>
void type_list(Writer& writer, const std::array<uint16_t, N>& types, bool may_goto) {
  for (uint16_t type : types) {
    if (!may_goto && type == 1) continue;
    writer.u16(type);
    writer.u16(4);
  }
}

/// The fields that `wanted` picks, as OXM headers.
template <typename Predicate>
void field_list(Writer& writer, bool with_masks, Predicate&& wanted) {
  for (size_t i = 0; i < match::kFieldCount; ++i) {
    const match::FieldInfo& entry = match::info(static_cast<match::Field>(i));
    // The QFI has no OXM number of its own yet.
    if (entry.field == match::Field::gtpu_qfi || !wanted(entry)) continue;
    encode_oxm_header(writer, entry.field, with_masks && entry.maskable);
  }
}

}  // namespace

void encode_table_features(Writer& writer, const pipeline::TableStats& table) {
  const size_t start = writer.size();
  const bool last = table.table_id + 1 >= pipeline::kTableCount;
  writer.u16(0);
  writer.u8(table.table_id);
  writer.zeros(5);
  writer.zeros(32);  // no name: tools show the number then
  writer.u64(UINT64_MAX);
  writer.u64(UINT64_MAX);
  writer.u32(3);  // OFPTC_DEPRECATED_MASK
  writer.u32(table.max_entries);

  property_pair(writer, Property::instructions,
                [last](Writer& out) { type_list(out, kInstructions, !last); });
  property_pair(writer, Property::next_tables, [&table](Writer& out) {
    for (unsigned next = table.table_id + 1u; next < pipeline::kTableCount; ++next) {
      out.u8(static_cast<uint8_t>(next));
    }
  });
  const auto actions = [](Writer& out) { type_list(out, kActions, true); };
  property_pair(writer, Property::write_actions, actions);
  property_pair(writer, Property::apply_actions, actions);
  const auto all = [](Writer& out) {
    field_list(out, true, [](const match::FieldInfo&) { return true; });
  };
  property(writer, static_cast<uint16_t>(Property::match), all);
  // A wildcard has no mask; ovs-ofctl refuses a list that says otherwise.
  property(writer, static_cast<uint16_t>(Property::wildcards), [](Writer& out) {
    field_list(out, false, [](const match::FieldInfo&) { return true; });
  });
  const auto settable = [](Writer& out) {
    field_list(out, false, [](const match::FieldInfo& entry) { return entry.settable; });
  };
  property_pair(writer, Property::write_set_field, settable);
  property_pair(writer, Property::apply_set_field, settable);
  writer.patch16(start, writer.size() - start);
}

}  // namespace headrace::openflow
