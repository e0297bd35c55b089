// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/tunnel_actions.h"

#include "openflow/codec/protocol.h"

namespace headrace::openflow {
namespace {

using packet::TunnelKind;
using packet::TunnelSpec;
using pipeline::Action;
using pipeline::PopTunnelAction;
using pipeline::PushTunnelAction;
using pipeline::SelectMemoryAction;

constexpr uint16_t kActionExperimenter = 0xffff;
constexpr uint16_t kNote = 8;  // NXAST_NOTE
constexpr uint16_t kPush = 1;
constexpr uint16_t kPop = 2;
constexpr uint16_t kRemember = 3;

bool is_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t octet) { return octet == 0; });
}

template <size_t size>
void take(Reader& reader, std::array<uint8_t, size>& to) {
  const Bytes bytes = reader.bytes(size);
  std::copy(bytes.begin(), bytes.end(), to.begin());
}

std::optional<TunnelKind> kind_of(uint8_t number) {
  if (number < 1 || number > 3) return std::nullopt;
  return static_cast<TunnelKind>(number);
}

/// An IPv4 address must not have more than four octets.
bool fits(const TunnelSpec& spec, const packet::TunnelAddress& address) {
  return spec.ipv6 || is_zero(Bytes(address).subspan(4));
}

OfResult<Action> decode_push(Reader& reader) {
  PushTunnelAction action;
  TunnelSpec& spec = action.spec;
  const std::optional<TunnelKind> kind = kind_of(reader.u8());
  const uint8_t flags = reader.u8();
  spec.tos = reader.u8();
  spec.ttl = reader.u8();
  spec.dst_port = reader.u16();
  spec.id = reader.u64();
  take(reader, spec.src_mac);
  take(reader, spec.dst_mac);
  const uint32_t zero = reader.u32();
  take(reader, spec.local);
  take(reader, spec.remote);
  if (!reader.ok()) return of_fail(error::kActionBadLen);
  if (!kind) return of_fail(error::kActionBadArgument);
  spec.kind = *kind;
  spec.ipv6 = (flags & kPushIpv6) != 0;
  spec.has_key = (flags & kPushKey) != 0;
  spec.checksum = (flags & kPushChecksum) != 0;
  spec.dont_fragment = (flags & kPushDontFragment) != 0;
  spec.layer3 = (flags & kPushLayer3) != 0;
  spec.inherit_tos = (flags & kPushInheritTos) != 0;
  spec.inherit_ttl = (flags & kPushInheritTtl) != 0;
  action.id_from_field = (flags & kPushIdFromField) != 0;
  const bool good = zero == 0 && spec.ttl != 0 && spec.id <= packet::largest_id(spec.kind) &&
                    fits(spec, spec.local) && fits(spec, spec.remote);
  if (!good) return of_fail(error::kActionBadArgument);
  return action;
}

OfResult<Action> decode_pop(Reader& reader) {
  const std::optional<TunnelKind> kind = kind_of(reader.u8());
  const Bytes zero = reader.bytes(5);
  if (!reader.ok()) return of_fail(error::kActionBadLen);
  if (!kind || !is_zero(zero)) return of_fail(error::kActionBadArgument);
  return PopTunnelAction{*kind};
}

OfResult<Action> decode_memory(Reader& reader) {
  const uint16_t idle_timeout = reader.u16();
  const uint32_t zero = reader.u32();
  if (!reader.ok()) return of_fail(error::kActionBadLen);
  if (idle_timeout == 0 || zero != 0) return of_fail(error::kActionBadArgument);
  return SelectMemoryAction{idle_timeout};
}

OfResult<Action> decode_ours(Reader& reader) {
  switch (reader.u16()) {
    case kPush:
      return decode_push(reader);
    case kPop:
      return decode_pop(reader);
    case kRemember:
      return decode_memory(reader);
    default:
      return of_fail(error::kActionBadExpType);
  }
}

void mark_as_note(Action& action) {
  if (auto* push = std::get_if<PushTunnelAction>(&action)) push->as_note = true;
  if (auto* pop = std::get_if<PopTunnelAction>(&action)) pop->as_note = true;
  if (auto* memory = std::get_if<SelectMemoryAction>(&action)) memory->as_note = true;
}

/// Writes the headers up to our id; what is returned closes the action.
size_t begin(Writer& writer, bool as_note) {
  const size_t start = writer.size();
  writer.u16(kActionExperimenter);
  writer.u16(0);
  if (as_note) {
    writer.u32(kNiciraExperimenter);
    writer.u16(kNote);
  }
  writer.u32(kHeadraceExperimenter);
  return start;
}

void end(Writer& writer, size_t start) {
  writer.pad8(start);
  writer.patch16(start + 2, writer.size() - start);
}

}  // namespace

std::optional<OfResult<Action>> decode_tunnel_action(Reader& body) {
  Reader reader = body;
  uint32_t experimenter = reader.u32();
  const bool as_note = experimenter == kNiciraExperimenter;
  if (as_note) {
    if (reader.u16() != kNote) return std::nullopt;
    experimenter = reader.u32();
  }
  if (experimenter != kHeadraceExperimenter || !reader.ok()) return std::nullopt;
  OfResult<Action> action = decode_ours(reader);
  if (action && as_note) mark_as_note(*action);
  // A note's length is padded with zeros; the action's own is exact.
  if (action && (as_note ? !is_zero(reader.rest()) || reader.left() >= 8 : reader.left() > 0)) {
    action = of_fail(error::kActionBadLen);
  }
  body = Reader(Bytes{});
  return action;
}

void encode_tunnel_action(Writer& writer, const PushTunnelAction& action) {
  const TunnelSpec& spec = action.spec;
  const auto flag = [](bool set, PushFlag bit) { return set ? unsigned{bit} : 0u; };
  const size_t start = begin(writer, action.as_note);
  writer.u16(kPush);
  writer.u8(static_cast<uint8_t>(spec.kind));
  writer.u8(static_cast<uint8_t>(
      flag(spec.ipv6, kPushIpv6) | flag(spec.has_key, kPushKey) |
      flag(spec.checksum, kPushChecksum) | flag(spec.dont_fragment, kPushDontFragment) |
      flag(spec.layer3, kPushLayer3) | flag(action.id_from_field, kPushIdFromField) |
      flag(spec.inherit_tos, kPushInheritTos) | flag(spec.inherit_ttl, kPushInheritTtl)));
  writer.u8(spec.tos);
  writer.u8(spec.ttl);
  writer.u16(spec.dst_port);
  writer.u64(spec.id);
  writer.bytes(spec.src_mac);
  writer.bytes(spec.dst_mac);
  writer.u32(0);
  writer.bytes(spec.local);
  writer.bytes(spec.remote);
  end(writer, start);
}

void encode_tunnel_action(Writer& writer, const SelectMemoryAction& action) {
  const size_t start = begin(writer, action.as_note);
  writer.u16(kRemember);
  writer.u16(action.idle_timeout);
  writer.u32(0);
  end(writer, start);
}

void encode_tunnel_action(Writer& writer, const PopTunnelAction& action) {
  const size_t start = begin(writer, action.as_note);
  writer.u16(kPop);
  writer.u8(static_cast<uint8_t>(action.kind));
  writer.zeros(5);
  end(writer, start);
}

}  // namespace headrace::openflow
