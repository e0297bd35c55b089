// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/multipart.h"

namespace headrace::openflow {
namespace {
constexpr size_t kFlagsAt = kHeaderSize + 2;
}  // namespace

OfResult<MultipartRequest> decode_multipart_request(Bytes body) {
  Reader reader(body);
  MultipartRequest request;
  request.type = static_cast<MultipartType>(reader.u16());
  request.more = (reader.u16() & kMultipartMore) != 0;
  reader.skip(4);
  if (!reader.ok()) return of_fail(error::kBadLen);
  request.body = reader.rest();
  return request;
}

MultipartReply::MultipartReply(uint32_t xid, MultipartType type) : xid_(xid), type_(type) {
  begin();
}

MultipartReply::MultipartReply(uint32_t xid, uint32_t experimenter, uint32_t exp_type)
    : xid_(xid), type_(MultipartType::experimenter), experimenter_({experimenter, exp_type}) {
  begin();
}

void MultipartReply::begin() {
  current_ = begin_message(Type::multipart_reply, xid_);
  Writer writer(current_);
  writer.u16(static_cast<uint16_t>(type_));
  writer.zeros(6);
  if (!experimenter_) return;
  writer.u32((*experimenter_)[0]);
  writer.u32((*experimenter_)[1]);
}

void MultipartReply::split(size_t start) {
  const std::vector<uint8_t> entry(current_.begin() + static_cast<ptrdiff_t>(start),
                                   current_.end());
  current_.resize(start);
  Writer(current_).patch16(kFlagsAt, kMultipartMore);
  done_.push_back(openflow::finish(std::move(current_)));
  begin();
  Writer(current_).bytes(entry);
}

std::vector<Message> MultipartReply::finish() {
  done_.push_back(openflow::finish(std::move(current_)));
  return std::move(done_);
}

void encode_description(Writer& writer, const Description& description) {
  writer.text(description.manufacturer, 256);
  writer.text(description.hardware, 256);
  writer.text(description.software, 256);
  writer.text(description.serial, 32);
  writer.text(description.datapath, 256);
}

void encode_table_stats(Writer& writer, const pipeline::TableStats& stats) {
  writer.u8(stats.table_id);
  writer.zeros(3);
  writer.u32(stats.active);
  writer.u64(stats.lookups);
  writer.u64(stats.matched);
}

OfResult<pipeline::PortNo> decode_port_request(Bytes body) {
  Reader reader(body);
  const pipeline::PortNo port = reader.u32();
  reader.skip(4);
  if (!reader.done()) return of_fail(error::kBadLen);
  return port;
}

OfResult<QueueRequest> decode_queue_request(Bytes body) {
  Reader reader(body);
  QueueRequest request;
  request.port = reader.u32();
  request.queue_id = reader.u32();
  if (!reader.done()) return of_fail(error::kBadLen);
  return request;
}

void encode_queue_stats(Writer& writer, const pipeline::QueueStats& stats) {
  writer.u32(stats.port);
  writer.u32(stats.queue_id);
  writer.u64(stats.tx_bytes);
  writer.u64(stats.tx_packets);
  writer.u64(stats.tx_errors);
  writer.u32(stats.duration.seconds);
  writer.u32(stats.duration.nanoseconds);
}

}  // namespace headrace::openflow
