// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/message.h"

namespace headrace::openflow {
namespace {
constexpr uint16_t kHelloVersionBitmap = 1;
}  // namespace

std::optional<Header> decode_header(Bytes bytes) {
  Reader reader(bytes);
  Header header;
  header.version = reader.u8();
  header.type = static_cast<Type>(reader.u8());
  header.length = reader.u16();
  header.xid = reader.u32();
  if (!reader.ok()) return std::nullopt;
  return header;
}

Message begin_message(Type type, uint32_t xid) {
  Message message(kHeaderSize);
  message[0] = kVersion;
  message[1] = static_cast<uint8_t>(type);
  for (size_t i = 0; i < 4; ++i) message[4 + i] = static_cast<uint8_t>(xid >> 8 * (3 - i));
  return message;
}

Message finish(Message message) {
  Writer(message).patch16(2, message.size());
  return message;
}

Message make_message(Type type, uint32_t xid, Bytes body) {
  Message message = begin_message(type, xid);
  Writer(message).bytes(body);
  return finish(std::move(message));
}

Message encode_hello(uint32_t xid) {
  Message message = begin_message(Type::hello, xid);
  Writer writer(message);
  writer.u16(kHelloVersionBitmap);
  writer.u16(8);
  writer.u32(1u << kVersion);
  return finish(std::move(message));
}

bool hello_allows_us(uint8_t version, Bytes body) {
  Reader reader(body);
  while (reader.left() >= 4) {
    const uint16_t type = reader.u16();
    const uint16_t length = reader.u16();
    if (length < 4) break;
    Reader element(reader.bytes(length - 4u));
    if (!reader.ok()) break;
    reader.skip(std::min<size_t>(reader.left(), (8 - length % 8) % 8));
    if (type == kHelloVersionBitmap) {
      const uint32_t versions = element.u32();
      if (element.ok()) return (versions >> kVersion & 1u) != 0;
    }
  }
  return version >= kVersion;
}

Message encode_error(uint32_t xid, OfError error, Bytes request) {
  Message message = begin_message(Type::error, xid);
  Writer writer(message);
  writer.u16(error.type);
  writer.u16(error.code);
  if (error.type == error::kExperimenterType) writer.u32(kOnfExperimenter);
  writer.bytes(request.first(std::min(request.size(), kErrorData)));
  return finish(std::move(message));
}

Message encode_hello_failed(uint32_t xid, uint8_t version, std::string_view text) {
  Message message = begin_message(Type::error, xid);
  message[0] = version;
  Writer writer(message);
  writer.u16(error::kHelloIncompatible.type);
  writer.u16(error::kHelloIncompatible.code);
  writer.bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return finish(std::move(message));
}

}  // namespace headrace::openflow
