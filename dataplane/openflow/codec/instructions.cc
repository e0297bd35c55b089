// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/instructions.h"

#include "openflow/codec/actions.h"

namespace headrace::openflow {
namespace {

using pipeline::ActionList;
using pipeline::Instruction;
using pipeline::InstructionList;

/// ofp_instruction_type.
namespace type {
constexpr uint16_t kGotoTable = 1;
constexpr uint16_t kWriteMetadata = 2;
constexpr uint16_t kWriteActions = 3;
constexpr uint16_t kApplyActions = 4;
constexpr uint16_t kClearActions = 5;
constexpr uint16_t kMeter = 6;
constexpr uint16_t kExperimenter = 0xffff;
}  // namespace type

OfResult<ActionList> decode_list(Reader& reader) {
  reader.skip(4);
  return decode_actions(reader.bytes(reader.left()), ActionContext::flow);
}

OfResult<Instruction> decode_goto(Reader& reader, uint8_t table_id) {
  const uint8_t next = reader.u8();
  reader.skip(3);
  if (next <= table_id || next >= pipeline::kTableCount) {
    return of_fail(error::kInstructionBadTableId);
  }
  return pipeline::GotoTable{next};
}

OfResult<Instruction> decode_one(uint16_t instruction_type, Reader& reader, uint8_t table_id) {
  switch (instruction_type) {
    case type::kGotoTable:
      return decode_goto(reader, table_id);
    case type::kWriteMetadata: {
      reader.skip(4);
      const uint64_t metadata = reader.u64();
      return pipeline::WriteMetadata{metadata, reader.u64()};
    }
    case type::kWriteActions: {
      OfResult<ActionList> actions = decode_list(reader);
      if (!actions) return of_fail(actions.error());
      return pipeline::WriteActions{std::move(*actions)};
    }
    case type::kApplyActions: {
      OfResult<ActionList> actions = decode_list(reader);
      if (!actions) return of_fail(actions.error());
      return pipeline::ApplyActions{std::move(*actions)};
    }
    case type::kClearActions:
      reader.skip(4);
      return pipeline::ClearActions{};
    case type::kMeter:
      return pipeline::MeterInstruction{reader.u32()};
    case type::kExperimenter:
      return of_fail(error::kInstructionBadExperimenter);
    default:
      return of_fail(error::kUnknownInstruction);
  }
}

/// Checks the lists in the order of execution: applied actions at once, the action set at the end.
OfResult<> check_lists(const InstructionList& instructions, KnownHeaders known) {
  for (const Instruction& instruction : instructions) {
    if (const auto* apply = std::get_if<pipeline::ApplyActions>(&instruction)) {
      if (OfResult<> checked = check_consistency(apply->actions, known); !checked) return checked;
    }
  }
  for (const Instruction& instruction : instructions) {
    if (const auto* write = std::get_if<pipeline::WriteActions>(&instruction)) {
      return check_set_consistency(write->actions, known);
    }
  }
  return {};
}

/// Writes one instruction; one overload for each alternative.
class InstructionWriter {
 public:
  explicit InstructionWriter(Writer& writer) : writer_(writer) {}

  void operator()(const pipeline::GotoTable& instruction) {
    head(type::kGotoTable, 8);
    writer_.u8(instruction.table_id);
    writer_.zeros(3);
  }
  void operator()(const pipeline::WriteMetadata& instruction) {
    head(type::kWriteMetadata, 24);
    writer_.zeros(4);
    writer_.u64(instruction.metadata);
    writer_.u64(instruction.mask);
  }
  void operator()(const pipeline::WriteActions& instruction) {
    list(type::kWriteActions, instruction.actions);
  }
  void operator()(const pipeline::ApplyActions& instruction) {
    list(type::kApplyActions, instruction.actions);
  }
  void operator()(const pipeline::ClearActions&) {
    head(type::kClearActions, 8);
    writer_.zeros(4);
  }
  void operator()(const pipeline::MeterInstruction& instruction) {
    head(type::kMeter, 8);
    writer_.u32(instruction.meter_id);
  }

 private:
  void head(uint16_t instruction_type, uint16_t length) {
    writer_.u16(instruction_type);
    writer_.u16(length);
  }
  void list(uint16_t instruction_type, const ActionList& actions) {
    const size_t start = writer_.size();
    head(instruction_type, 0);
    writer_.zeros(4);
    encode_actions(writer_, actions);
    writer_.patch16(start + 2, writer_.size() - start);
  }

  Writer& writer_;
};

}  // namespace

OfResult<InstructionList> decode_instructions(Bytes bytes, uint8_t table_id,
                                              const KnownHeaders& known) {
  InstructionList instructions;
  uint32_t seen = 0;
  Reader reader(bytes);
  while (reader.left() > 0) {
    const uint16_t instruction_type = reader.u16();
    const uint16_t length = reader.u16();
    if (!reader.ok() || length < 8 || length % 8 != 0) return of_fail(error::kInstructionBadLen);
    Reader body(reader.bytes(length - 4u));
    if (!reader.ok()) return of_fail(error::kInstructionBadLen);
    OfResult<Instruction> instruction = decode_one(instruction_type, body, table_id);
    if (!instruction) return of_fail(instruction.error());
    if (!body.done()) return of_fail(error::kInstructionBadLen);
    const uint32_t bit = 1u << instruction_type;
    if ((seen & bit) != 0) return of_fail(error::kDuplicateInstruction);
    seen |= bit;
    instructions.push_back(std::move(*instruction));
  }
  if (OfResult<> checked = check_lists(instructions, known); !checked) {
    return of_fail(checked.error());
  }
  return instructions;
}

void encode_instructions(Writer& writer, const InstructionList& instructions) {
  InstructionWriter write(writer);
  for (const Instruction& instruction : instructions) std::visit(write, instruction);
}

}  // namespace headrace::openflow
