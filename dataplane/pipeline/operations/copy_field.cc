// SPDX-License-Identifier: Apache-2.0
// Copy-field: bits of one field into another (ONF EXT-320 for OpenFlow 1.3; OpenFlow 1.5's
// OFPAT_COPY_FIELD).
//
// On the wire it has two forms. ONF's, after the experimenter id 0x4f4e4600: exp_type 3200 (u16),
// two octets of 0, n_bits, src_offset, dst_offset (u16 each), two octets of 0, the OXM headers of
// source and destination, zeros to a multiple of 8. Nicira's NXAST_REG_MOVE, which is what
// ovs-ofctl makes of `move:`, after 0x00002320: subtype 6, n_bits, src_offset, dst_offset, the two
// headers, zeros. It is reported in the form in which it came. Bits are counted from a field's
// least significant one.
#include "match/fields/oxm.h"
#include "match/fields/set_field.h"
#include "pipeline/operations/experimenter.h"
#include "pipeline/operations/prerequisites.h"

namespace headrace::pipeline {

extern const Operation operation_copy_field;

namespace {

using match::Field;
using match::FieldInfo;
using Value = std::array<uint8_t, 16>;

constexpr uint16_t kOnfCopyField = 3200;
constexpr uint16_t kRegMove = 6;

struct CopyFieldAction {
  Field from;
  Field to;
  uint16_t n_bits;
  uint16_t from_bit;
  uint16_t to_bit;
  bool nicira;  ///< came as NXAST_REG_MOVE
  bool operator==(const CopyFieldAction&) const = default;
  static const Operation& operation() { return operation_copy_field; }
};

/// Nicira's older numbers, in which ovs-ofctl names fields in a register move (nicira-ext.h); those
/// of the same size and meaning as the OXM field.
struct NxmNumber {
  uint16_t nxm_class;
  uint8_t number;
  Field field;
};
constexpr NxmNumber kNxm[] = {
    {0, 1, Field::eth_dst},         {0, 2, Field::eth_src},    {0, 3, Field::eth_type},
    {0, 6, Field::ip_proto},        {0, 7, Field::ipv4_src},   {0, 8, Field::ipv4_dst},
    {0, 9, Field::tcp_src},         {0, 10, Field::tcp_dst},   {0, 11, Field::udp_src},
    {0, 12, Field::udp_dst},        {0, 15, Field::arp_op},    {0, 16, Field::arp_spa},
    {0, 17, Field::arp_tpa},        {1, 16, Field::tunnel_id}, {1, 17, Field::arp_sha},
    {1, 18, Field::arp_tha},        {1, 19, Field::ipv6_src},  {1, 20, Field::ipv6_dst},
    {1, 23, Field::ipv6_nd_target},
};

/// A field's OXM or NXM header without a mask; nothing if there is no such field.
std::optional<Field> read_field(wire::Reader& body) {
  const match::OxmHeader header = match::read_oxm_header(body);
  if (header.has_mask) return std::nullopt;
  for (const NxmNumber& each : kNxm) {
    if (each.nxm_class == header.oxm_class && each.number == header.field) return each.field;
  }
  return match::field_of_oxm(header, body);
}

OfResult<> check(const CopyFieldAction& copy) {
  if (!match::info(copy.to).settable) return tl::unexpected(of_error::kBadActionSetType);
  const bool inside = copy.n_bits != 0 &&
                      copy.from_bit + copy.n_bits <= match::info(copy.from).bits &&
                      copy.to_bit + copy.n_bits <= match::info(copy.to).bits;
  if (!inside) return tl::unexpected(of_error::kBadActionArgument);
  return {};
}

OfResult<Action> decode(wire::Reader& body, bool nicira) {
  CopyFieldAction copy{};
  copy.nicira = nicira;
  if (!nicira) body.skip(2);
  copy.n_bits = body.u16();
  copy.from_bit = body.u16();
  copy.to_bit = body.u16();
  if (!nicira) body.skip(2);
  const std::optional<Field> from = read_field(body);
  const std::optional<Field> to = read_field(body);
  if (!body.ok()) return tl::unexpected(of_error::kBadActionLength);
  if (!from || !to) return tl::unexpected(of_error::kBadActionSetType);
  if (body.left() >= 8 || !all_zero(body.rest())) {
    return tl::unexpected(of_error::kBadActionLength);
  }
  body.skip(body.left());
  copy.from = *from;
  copy.to = *to;
  if (OfResult<> checked = check(copy); !checked) return tl::unexpected(checked.error());
  return Action(copy);
}

template <bool nicira>
OfResult<Action> decode_form(wire::Reader& body, ActionContext) {
  return decode(body, nicira);
}

void encode(wire::Writer& writer, const Action& action) {
  const auto& copy = action.arguments<CopyFieldAction>();
  const size_t start = writer.size();
  encode_head(writer, kExperimenterAction, 0);
  writer.u32(copy.nicira ? kNiciraExperimenter : match::kOnfExperimenter);
  writer.u16(copy.nicira ? kRegMove : kOnfCopyField);
  if (!copy.nicira) writer.zeros(2);
  writer.u16(copy.n_bits);
  writer.u16(copy.from_bit);
  writer.u16(copy.to_bit);
  if (!copy.nicira) writer.zeros(2);
  match::encode_oxm_header(writer, copy.from, false);
  match::encode_oxm_header(writer, copy.to, false);
  writer.pad8(start);
  writer.patch16(start + 2, writer.size() - start);
}

bool allowed(const Action& action, const KnownHeaders& known) {
  const auto& copy = action.arguments<CopyFieldAction>();
  const auto there = [&known](Field field) {
    return field == Field::vlan_vid ? known.vlan : prerequisites_met(field, known);
  };
  // The destination is written, so a tag must hold it; a source without one reads as 0.
  return there(copy.to) && (copy.from == Field::vlan_vid || there(copy.from));
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  const auto& copy = action.arguments<CopyFieldAction>();
  if (OfResult<> checked = check(copy); !checked) return tl::unexpected(checked.error());
  Op op = make_op(operation_copy_field);
  op.set = match::set_field_for(copy.to);
  op.field = copy.to;
  op.from = copy.from;
  op.ethertype = copy.n_bits;
  op.argument = uint32_t{copy.from_bit} << 16 | copy.to_bit;
  return op;
}

match::WordSet reads(const Op& op) {
  return match::words_of_set_field(op.field) | match::words_of_set_field(op.from);
}

match::WordSet changes(const Op&) {
  return match::kAllWords;
}

bool bit_of(const Value& value, size_t octets, size_t bit) {
  return (value[octets - 1 - bit / 8] >> bit % 8 & 1) != 0;
}

/// The value of field `to` in the packet with the bits of `from` in it.
Value copied(const match::FlowKey& key, Field from, Field to, uint16_t n_bits, uint16_t from_bit,
             uint16_t to_bit) {
  Value source{};
  Value target{};
  match::load(key, from, source.data());
  match::load(key, to, target.data());
  const size_t from_octets = match::info(from).bytes;
  const size_t to_octets = match::info(to).bytes;
  if ((n_bits | from_bit | to_bit) % 8 == 0) {
    for (size_t octet = 0; octet < n_bits / 8u; ++octet) {
      target[to_octets - 1 - to_bit / 8u - octet] = source[from_octets - 1 - from_bit / 8u - octet];
    }
    return target;
  }
  for (size_t bit = 0; bit < n_bits; ++bit) {
    uint8_t& octet = target[to_octets - 1 - (to_bit + bit) / 8];
    const auto mask = static_cast<uint8_t>(1u << (to_bit + bit) % 8);
    octet = static_cast<uint8_t>(bit_of(source, from_octets, from_bit + bit) ? octet | mask
                                                                             : octet & ~mask);
  }
  return target;
}

void run(Execution& x, OpBurst& burst) {
  edit_each(x, burst, [&](size_t k) {
    const Op& op = *burst.ops[k];
    const PacketView view = burst.view(k);
    match::refresh_values(x.burst.parse_depth, view.packet, *view.key, *view.parsed);
    const Value value =
        copied(*view.key, op.from, op.field, op.ethertype, static_cast<uint16_t>(op.argument >> 16),
               static_cast<uint16_t>(op.argument));
    return op.set(view.packet, *view.parsed, *view.key, value.data()) ? DropReason::none
                                                                      : DropReason::bad_action;
  });
}

bool reference(ReferencePacket& packet, const Action& action) {
  const auto& copy = action.arguments<CopyFieldAction>();
  const Value value =
      copied(packet.key, copy.from, copy.to, copy.n_bits, copy.from_bit, copy.to_bit);
  return refreshed(
      packet, match::set_field_for(copy.to)(packet.mbuf, packet.parsed, packet.key, value.data()));
}

constexpr WireForm kForms[] = {{.type = kExperimenterAction,
                                .experimenter = match::kOnfExperimenter,
                                .subtype = kOnfCopyField,
                                .decode = decode_form<false>},
                               {.type = kExperimenterAction,
                                .experimenter = kNiciraExperimenter,
                                .subtype = kRegMove,
                                .decode = decode_form<true>}};

}  // namespace

extern const Operation operation_copy_field{
    .name = "move",
    .forms = kForms,
    .encode = encode,
    .allowed = allowed,
    .order = SetOrder::set,
    .compile = compile,
    .reads = reads,
    .changes = changes,
    .changes_layout = true,
    .run = run,
    .reference = reference,
};

}  // namespace headrace::pipeline
