// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/table_features.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "match/fields/fields.h"
#include "openflow/codec/oxm.h"
#include "pipeline/operations/registry.h"
#include "pipeline/terms/flow_types.h"

namespace headrace::openflow {
namespace {

/// ofp_table_feature_prop_type; each except match and wildcards has a variant for the table-miss
/// entry at the next number.
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

/// The types of the operations that have an action type of OpenFlow.
std::vector<uint16_t> action_types() {
  std::vector<uint16_t> types;
  for (const pipeline::Operation* operation : pipeline::operations()) {
    for (const pipeline::WireForm& form : operation->forms) {
      if (form.type != pipeline::kExperimenterAction) types.push_back(form.type);
    }
  }
  std::sort(types.begin(), types.end());
  return types;
}

template <typename Write>
void property(Writer& writer, uint16_t type, Write&& write) {
  const size_t start = writer.size();
  writer.u16(type);
  writer.u16(0);
  write(writer);
  writer.patch16(start + 2, writer.size() - start);
  writer.pad8(start);
}

/// The property and its variant for table-miss.
template <typename Write>
void property_pair(Writer& writer, Property type, Write&& write) {
  property(writer, static_cast<uint16_t>(type), write);
  property(writer, static_cast<uint16_t>(static_cast<uint16_t>(type) + 1), write);
}

/// Types without parameters: ofp_instruction and ofp_action_header, 4 octets each.
void type_list(Writer& writer, std::span<const uint16_t> types, bool may_goto) {
  for (uint16_t type : types) {
    if (!may_goto && type == 1) continue;
    writer.u16(type);
    writer.u16(4);
  }
}

/// The fields selected by `wanted`, as OXM headers.
template <typename Predicate>
void field_list(Writer& writer, bool with_masks, Predicate&& wanted) {
  for (size_t i = 0; i < match::kFieldCount; ++i) {
    const match::FieldInfo& entry = match::info(static_cast<match::Field>(i));
    // The QFI has no OXM number yet.
    if (entry.field == match::Field::gtpu_qfi || !wanted(entry)) continue;
    match::encode_oxm_header(writer, entry.field, with_masks && entry.maskable);
  }
}

constexpr size_t kNameSize = 32;
constexpr uint16_t kExperimenterKind = 0xffff;
constexpr uint32_t kConfigMask = 3;  // OFPTC_DEPRECATED_MASK

/// An instruction's or action's type, and its experimenter.
uint64_t read_kind(Reader& reader) {
  const uint64_t type = reader.u16();
  const uint16_t length = reader.u16();
  if (type != kExperimenterKind) {
    reader.skip(length - size_t{4});
    return type << 32;
  }
  const uint32_t experimenter = reader.u32();
  reader.skip(length - size_t{8});
  return type << 32 | experimenter;
}

/// A field's class and number, its experimenter, and in bit 0 whether it may have a mask.
uint64_t read_field(Reader& reader) {
  const uint64_t oxm_class = reader.u16();
  const uint64_t field = reader.u8();
  reader.skip(1);
  const uint64_t experimenter = oxm_class == 0xffff ? reader.u32() : 0;
  return oxm_class << 48 | field >> 1 << 40 | experimenter << 1 | (field & 1);
}

OfResult<std::vector<uint64_t>> read_property(uint16_t type, Bytes body) {
  Reader reader(body);
  std::vector<uint64_t> listed;
  while (reader.ok() && reader.left() > 0) {
    // Types in pairs: for all entries, and for the table-miss entry.
    switch (static_cast<Property>(type & ~1u)) {
      case Property::next_tables:
        listed.push_back(reader.u8());
        break;
      case Property::instructions:
      case Property::write_actions:
      case Property::apply_actions:
        listed.push_back(read_kind(reader));
        break;
      case Property::match:
      case Property::wildcards:
      case Property::write_set_field:
      case Property::apply_set_field:
        listed.push_back(read_field(reader));
        break;
    }
  }
  if (!reader.ok()) return of_fail(error::kFeaturesBadLen);
  std::sort(listed.begin(), listed.end());
  return listed;
}

/// An ofp_table_features without its length.
OfResult<TableFeatures> read_table(Reader reader) {
  TableFeatures table;
  table.table_id = reader.u8();
  reader.skip(5);
  const Bytes name = reader.bytes(kNameSize);
  reader.skip(16);  // metadata: every bit can be matched and written
  table.config = reader.u32();
  table.max_entries = reader.u32();
  if (!reader.ok()) return of_fail(error::kFeaturesBadLen);
  table.name.assign(name.begin(), std::find(name.begin(), name.end(), 0));
  while (reader.left() > 0) {
    const uint16_t type = reader.u16();
    const uint16_t length = reader.u16();
    const Bytes body = reader.bytes(length - size_t{4});
    reader.skip((8 - length % 8) % 8);
    if (!reader.ok()) return of_fail(error::kFeaturesBadLen);
    if (type > static_cast<uint16_t>(Property::apply_set_field) + 1 ||
        type == static_cast<uint16_t>(Property::match) + 1 ||
        type == static_cast<uint16_t>(Property::wildcards) + 1) {
      return of_fail(error::kFeaturesBadType);
    }
    OfResult<std::vector<uint64_t>> listed = read_property(type, body);
    if (!listed) return of_fail(listed.error());
    table.properties[type] = std::move(*listed);
  }
  return table;
}

}  // namespace

OfResult<std::vector<TableFeatures>> decode_table_features(Bytes body) {
  std::vector<TableFeatures> tables;
  Reader reader(body);
  while (reader.left() > 0) {
    const uint16_t length = reader.u16();
    const Bytes rest = reader.bytes(length - size_t{2});
    if (!reader.ok()) return of_fail(error::kFeaturesBadLen);
    OfResult<TableFeatures> table = read_table(Reader(rest));
    if (!table) return of_fail(table.error());
    tables.push_back(std::move(*table));
  }
  return tables;
}

bool satisfies(const TableFeatures& offer, const TableFeatures& asked) {
  if ((asked.config & ~kConfigMask) != 0 || asked.max_entries > offer.max_entries) return false;
  for (const auto& [type, listed] : asked.properties) {
    const std::vector<uint64_t>& offered = offer.properties.at(type);
    const bool fields = type >= static_cast<uint16_t>(Property::match);
    for (const uint64_t each : listed) {
      const auto has = [&offered](uint64_t what) {
        return std::binary_search(offered.begin(), offered.end(), what);
      };
      // A field that may have a mask also matches without one.
      if (!has(each) && !(fields && has(each | 1))) return false;
    }
  }
  return true;
}

void encode_table_features(Writer& writer, const pipeline::TableStats& table,
                           std::string_view name) {
  const size_t start = writer.size();
  const bool last = table.table_id + 1 >= pipeline::kTableCount;
  writer.u16(0);
  writer.u8(table.table_id);
  writer.zeros(5);
  writer.text(name, kNameSize);  // for an empty name tools show the number
  writer.u64(UINT64_MAX);
  writer.u64(UINT64_MAX);
  writer.u32(kConfigMask);
  writer.u32(table.max_entries);

  property_pair(writer, Property::instructions,
                [last](Writer& out) { type_list(out, kInstructions, !last); });
  property_pair(writer, Property::next_tables, [&table](Writer& out) {
    for (unsigned next = table.table_id + 1u; next < pipeline::kTableCount; ++next) {
      out.u8(static_cast<uint8_t>(next));
    }
  });
  const auto actions = [](Writer& out) { type_list(out, action_types(), true); };
  property_pair(writer, Property::write_actions, actions);
  property_pair(writer, Property::apply_actions, actions);
  const auto all = [](Writer& out) {
    field_list(out, true, [](const match::FieldInfo&) { return true; });
  };
  property(writer, static_cast<uint16_t>(Property::match), all);
  // A wildcard has no mask; ovs-ofctl rejects a list that says otherwise.
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
