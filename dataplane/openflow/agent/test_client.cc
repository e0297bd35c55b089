// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/test_client.h"

#include <asio/read.hpp>
#include <asio/write.hpp>

#include "openflow/codec/actions.h"
#include "openflow/codec/instructions.h"
#include "openflow/codec/oxm.h"
#include "pipeline/execute/defragmenter.h"

namespace headrace::openflow::test {

bool DirectHost::packet_out(pipeline::PortNo in_port,
                            std::unique_ptr<pipeline::ActionProgram> actions, Bytes packet) {
  switch_.executor.packet_out(switch_.lsi.program(), in_port, *actions,
                              pipeline::test::make_packet({packet.begin(), packet.end()}));
  switch_.executor.flush();
  return true;
}

bool DirectHost::set_fragments(pipeline::FragmentMode mode) {
  auto made = pipeline::Defragmenter::make(1, pipeline::test::TestSwitch::kHz);
  EXPECT_TRUE(made);
  switch_.lsi.set_fragments(mode, std::move(*made));
  return true;
}

Client::Client(asio::io_context& io, const std::string& path) : io_(io), socket_(io) {
  socket_.connect(Local::endpoint(path));
  shake_hands();
}

Client::Client(asio::io_context& io, Local::socket socket) : io_(io), socket_(std::move(socket)) {
  shake_hands();
}

void Client::shake_hands() {
  socket_.non_blocking(true);
  send(encode_hello(1));
  const Message hello = receive();
  EXPECT_EQ(type_of(hello), Type::hello);
}

void Client::send(const Message& message) {
  size_t at = 0;
  run_until(io_, [&] {
    std::error_code code;
    at += socket_.write_some(asio::buffer(message.data() + at, message.size() - at), code);
    fill();
    return at == message.size() || closed_;
  });
}

void Client::fill() {
  std::array<uint8_t, 65536> chunk;
  std::error_code code;
  while (const size_t got = socket_.read_some(asio::buffer(chunk), code)) {
    buffer_.insert(buffer_.end(), chunk.begin(), chunk.begin() + got);
  }
  if (code && code != asio::error::would_block) closed_ = true;
}

Message Client::receive(std::chrono::milliseconds limit) {
  const auto whole = [this] {
    fill();
    const std::optional<Header> header = decode_header(buffer_);
    return header && buffer_.size() >= header->length;
  };
  if (!run_until(
          io_, [&] { return whole() || closed_; }, limit) ||
      !whole())
    return {};
  const size_t length = decode_header(buffer_)->length;
  Message message(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(length));
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(length));
  if (type_of(message) != Type::echo_request) return message;
  message[1] = static_cast<uint8_t>(Type::echo_reply);
  send(message);
  return receive(limit);
}

std::vector<Message> Client::drain() {
  const uint32_t xid = ++barrier_;
  send(Type::barrier_request, xid);
  std::vector<Message> before;
  while (true) {
    Message message = receive();
    if (message.empty()) {
      ADD_FAILURE() << "no barrier reply";
      return before;
    }
    if (type_of(message) == Type::barrier_reply && xid_of(message) == xid) return before;
    before.push_back(std::move(message));
  }
}

bool Client::closed() {
  return run_until(io_, [this] {
    fill();
    return closed_;
  });
}

OfError error_of(const Message& message) {
  if (message.empty() || type_of(message) != Type::error) return {0xfffe, 0};
  Reader reader(message);
  reader.skip(kHeaderSize);
  const uint16_t type = reader.u16();
  return {type, reader.u16()};
}

Message flow_mod(uint32_t xid, uint8_t table, uint16_t priority, const match::Match& match,
                 const pipeline::InstructionList& instructions, uint8_t command, uint16_t flags,
                 uint32_t buffer_id) {
  Message message = begin_message(Type::flow_mod, xid);
  Writer writer(message);
  writer.u64(0xc0);
  writer.u64(0);
  writer.u8(table);
  writer.u8(command);
  writer.zeros(4);
  writer.u16(priority);
  writer.u32(buffer_id);
  writer.u32(pipeline::kPortAny);
  writer.u32(pipeline::kGroupAny);
  writer.u16(flags);
  writer.zeros(2);
  encode_match(writer, match);
  encode_instructions(writer, instructions);
  return finish(std::move(message));
}

Message packet_out(uint32_t xid, uint32_t buffer_id, pipeline::PortNo in_port,
                   const pipeline::ActionList& actions, Bytes packet) {
  Message encoded;
  Writer action_writer(encoded);
  encode_actions(action_writer, actions);
  Message message = begin_message(Type::packet_out, xid);
  Writer writer(message);
  writer.u32(buffer_id);
  writer.u32(in_port);
  writer.u16(static_cast<uint16_t>(encoded.size()));
  writer.zeros(6);
  writer.bytes(encoded);
  writer.bytes(packet);
  return finish(std::move(message));
}

pipeline::InstructionList output_to(pipeline::PortNo port, uint16_t max_len) {
  return {pipeline::ApplyActions{{pipeline::OutputAction{port, max_len}}}};
}

}  // namespace headrace::openflow::test
