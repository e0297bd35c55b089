// SPDX-License-Identifier: Apache-2.0
// The ofp_header of every message, and the messages that every peer answers: hello, error, echo,
// barrier.
//
// Source: OpenFlow 1.3.5, sections 7.1, 7.4.4, 7.5.
#pragma once

#include <cstdint>
#include <optional>

#include "openflow/codec/errors.h"
#include "openflow/codec/protocol.h"
#include "openflow/codec/wire.h"

namespace headrace::openflow {

/// ofp_header.
struct Header {
  uint8_t version{kVersion};
  Type type{Type::hello};
  uint16_t length{0};
  uint32_t xid{0};
};

/// The header at the front of `bytes`; nothing if there are fewer than 8 octets.
std::optional<Header> decode_header(Bytes bytes);

/// Starts a message; finish() sets its length.
Message begin_message(Type type, uint32_t xid);
/// Completes a message of at most kMaxMessage octets.
Message finish(Message message);
/// A complete message with `body` after its header.
Message make_message(Type type, uint32_t xid, Bytes body = {});

/// Our OFPT_HELLO, with the version bitmap.
Message encode_hello(uint32_t xid);
/// Whether a peer that sent this hello (version and body) supports OpenFlow 1.3: according to the
/// bitmap if there is one, otherwise if its version is at least ours.
bool hello_allows_us(uint8_t version, Bytes body);

/// OFPT_ERROR; `request` is the offending message, of which at most `kErrorData` octets are quoted.
/// The specification requires at least 64; more are quoted because tools display them.
Message encode_error(uint32_t xid, OfError error, Bytes request);
inline constexpr size_t kErrorData = kMaxMessage - 16;
/// HELLO_FAILED with an explanatory text.
Message encode_hello_failed(uint32_t xid, uint8_t version, std::string_view text);

}  // namespace headrace::openflow
