// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/bundle_messages.h"

namespace headrace::openflow {

OfResult<BundleControl> decode_bundle_control(Bytes body) {
  Reader reader(body);
  BundleControl control;
  control.bundle_id = reader.u32();
  const uint16_t type = reader.u16();
  control.flags = reader.u16();
  if (!reader.ok()) return of_fail(error::kBadLen);
  if (type > static_cast<uint16_t>(BundleControlType::discard_reply)) {
    return of_fail(error::kBundleBadType);
  }
  control.type = static_cast<BundleControlType>(type);
  return control;
}

Message encode_bundle_control(uint32_t xid, const BundleControl& control) {
  Message message = begin_message(Type::experimenter, xid);
  Writer writer(message);
  writer.u32(kOnfExperimenter);
  writer.u32(kBundleControl);
  writer.u32(control.bundle_id);
  writer.u16(static_cast<uint16_t>(control.type));
  writer.u16(control.flags);
  return finish(std::move(message));
}

OfResult<BundleAdd> decode_bundle_add(Bytes body) {
  Reader reader(body);
  BundleAdd add;
  add.bundle_id = reader.u32();
  reader.skip(2);
  add.flags = reader.u16();
  if (!reader.ok()) return of_fail(error::kBadLen);
  const std::optional<Header> header = decode_header(reader.rest());
  if (!header || header->length < kHeaderSize || header->length > reader.left()) {
    return of_fail(error::kBundleMsgBadLen);
  }
  add.message = reader.rest().first(header->length);
  return add;
}

}  // namespace headrace::openflow
