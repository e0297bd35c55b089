// SPDX-License-Identifier: Apache-2.0
// Multipart messages: the header of requests, and replies split into messages.
//
// Source: OpenFlow 1.3.5, section 7.3.5.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "openflow/codec/errors.h"
#include "openflow/codec/message.h"
#include "openflow/codec/protocol.h"
#include "pipeline/terms/stats.h"

namespace headrace::openflow {

/// ofp_multipart_request.
struct MultipartRequest {
  MultipartType type{MultipartType::desc};
  bool more{false};
  Bytes body;
};
/// The body (after ofp_header) of OFPT_MULTIPART_REQUEST.
OfResult<MultipartRequest> decode_multipart_request(Bytes body);

/// A reply that grows entry by entry. When the next entry no longer fits, a new message is started,
/// and the one before gets REPLY_MORE.
class MultipartReply {
 public:
  MultipartReply(uint32_t xid, MultipartType type);
  /// A reply of the experimenter type, with `exp_type`.
  MultipartReply(uint32_t xid, uint32_t experimenter, uint32_t exp_type);

  /// `write(Writer&)` appends one entry; entries are never split.
  template <typename Write>
  void add(Write&& write) {
    const size_t start = current_.size();
    Writer writer(current_);
    write(writer);
    if (current_.size() > kMaxMessage) split(start);
  }

  /// The messages, at least one.
  std::vector<Message> finish();

 private:
  void begin();
  void split(size_t start);

  uint32_t xid_;
  MultipartType type_;
  std::optional<std::array<uint32_t, 2>> experimenter_;  ///< id and exp_type, in every message
  Message current_;
  std::vector<Message> done_;
};

/// ofp_desc: the description of the switch.
struct Description {
  std::string manufacturer;
  std::string hardware;
  std::string software;
  std::string serial;
  std::string datapath;
};
void encode_description(Writer& writer, const Description& description);

/// Appends an ofp_table_stats.
void encode_table_stats(Writer& writer, const pipeline::TableStats& stats);

/// The port of a port statistics request.
OfResult<pipeline::PortNo> decode_port_request(Bytes body);

/// ofp_queue_stats_request.
struct QueueRequest {
  pipeline::PortNo port{0};
  uint32_t queue_id{0};
};
OfResult<QueueRequest> decode_queue_request(Bytes body);
/// Appends an ofp_queue_stats.
void encode_queue_stats(Writer& writer, const pipeline::QueueStats& stats);

}  // namespace headrace::openflow
