// SPDX-License-Identifier: Apache-2.0
// OFPAT_OUTPUT: to a port, or to a pseudo-port, each of which is a file of its own.
#include "pipeline/execute/transmit.h"
#include "pipeline/operations/forms.h"
#include "pipeline/operations/outputs.h"
#include "pipeline/operations/pseudo_ports/registry.h"
#include "pipeline/program/resolver.h"
#include "pipeline/program/rule.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 0;
constexpr uint16_t kLength = 16;

bool is_port(PortNo port) {
  return (port > 0 && port <= kPortMax) || port == kPortLocal;
}

/// The pseudo-port of that number, if it may stand there.
const PseudoPort* pseudo_port_in(PortNo port, ActionContext context) {
  const PseudoPort* found = find_pseudo_port(port);
  return found != nullptr && found->packet_out_only && context != ActionContext::packet_out
             ? nullptr
             : found;
}

OfResult<Action> decode(wire::Reader& body, ActionContext context) {
  const PortNo port = body.u32();
  const uint16_t max_len = body.u16();
  if (!is_port(port) && pseudo_port_in(port, context) == nullptr) {
    return tl::unexpected(of_error::kBadActionOutPort);
  }
  return Action(OutputAction{port, max_len});
}

void encode(wire::Writer& writer, const Action& action) {
  const auto& output = action.arguments<OutputAction>();
  encode_head(writer, kType, kLength);
  writer.u32(output.port);
  writer.u16(output.max_len);
  writer.zeros(6);
}

OfResult<Op> compile(const Action& action, ActionContext context, Resolver& resolver) {
  const auto& output = action.arguments<OutputAction>();
  Op op = make_op(OutputAction::operation());
  op.argument = output.max_len;
  if (is_port(output.port)) {
    op.port = resolver.port_handle(output.port);
    return op;
  }
  op.pseudo_port = pseudo_port_in(output.port, context);
  if (op.pseudo_port == nullptr) return tl::unexpected(of_error::kBadActionOutPort);
  op.ethertype = kToPseudoPort;
  return op;
}

bool fuse(const Op& op, Rule& rule) {
  if (is_to_pseudo_port(op)) return false;
  rule.forward.out = op.port;
  return true;
}

void to_ports(Execution& x, OpBurst& burst) {
  std::array<rte_mbuf*, kBurst> packets;
  take_or_copy(x, burst, packets.data());
  send_in_runs(x, burst.count, [&](size_t k) -> Outgoing {
    if (packets[k] == nullptr) return {};
    const PacketView view = burst.view(k);
    return {burst.ops[k]->port, {packets[k], view.key, view.parsed}, packets[k]->pkt_len};
  });
  if (burst.last) burst.count = 0;
}

/// Packets to one and the same kind of port, in a row.
void run(Execution& x, OpBurst& burst) {
  note_outputs(x, burst);
  const auto kind = [&](size_t k) {
    return is_to_pseudo_port(*burst.ops[k]) ? burst.ops[k]->pseudo_port : nullptr;
  };
  const PseudoPort* const first = kind(0);
  uintptr_t differ = 0;  // packets of one rule have the same op
  for (size_t k = 1; k < burst.count; ++k) {
    differ |= reinterpret_cast<uintptr_t>(burst.ops[k]) ^ reinterpret_cast<uintptr_t>(burst.ops[0]);
  }
  bool same = true;
  for (size_t k = 1; differ != 0 && k < burst.count; ++k) same = same && kind(k) == first;
  if (same) {
    first == nullptr ? to_ports(x, burst) : first->run(x, burst);
    return;
  }
  for (size_t k = 0; k < burst.count;) {
    const PseudoPort* const to = kind(k);
    OpBurst part;
    part.block = burst.block;
    part.nesting = burst.nesting;
    part.last = burst.last;
    part.count = 0;
    for (; k < burst.count && kind(k) == to; ++k)
      part.add(burst.at[k], burst.ops[k], burst.rule[k]);
    to == nullptr ? to_ports(x, part) : to->run(x, part);
  }
  if (burst.last) burst.count = 0;
}

bool reference(ReferencePacket& packet, const Action& action) {
  const auto& output = action.arguments<OutputAction>();
  if (const PseudoPort* pseudo = find_pseudo_port(output.port)) {
    pseudo->reference(packet, output);
  } else if (output.port != packet.in_port) {
    packet.sw.send(packet, output.port);
  } else {
    packet.sw.refuse(packet, DropReason::input_port);
  }
  return true;
}

constexpr WireForm kForms[] = {{.type = kType, .length = kLength, .decode = decode}};

}  // namespace

extern const Operation operation_output{
    .name = "output",
    .forms = kForms,
    .encode = encode,
    .order = SetOrder::output,
    .compile = compile,
    .fuse = fuse,
    .run = run,
    .reference = reference,
};

const Operation& OutputAction::operation() {
  return operation_output;
}

void note_outputs(Execution& x, const OpBurst& burst) noexcept {
  if (burst.last || burst.block != &x.main) return;
  for (size_t k = 0; k < burst.count; ++k) x.burst.had_output |= PacketSet{1} << burst.at[k];
}

}  // namespace headrace::pipeline
