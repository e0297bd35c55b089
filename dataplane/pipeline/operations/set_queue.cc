// SPDX-License-Identifier: Apache-2.0
// OFPAT_SET_QUEUE: the queue of the port by which a packet will leave.
#include "pipeline/operations/forms.h"
#include "pipeline/terms/packet_queue.h"

namespace headrace::pipeline {
namespace {

constexpr uint16_t kType = 21;

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  return Action(SetQueueAction{body.u32()});
}

void encode(wire::Writer& writer, const Action& action) {
  encode_head(writer, kType, 8);
  writer.u32(action.arguments<SetQueueAction>().queue_id);
}

OfResult<Op> compile(const Action& action, ActionContext, Resolver&) {
  Op op = make_op(SetQueueAction::operation());
  op.argument = action.arguments<SetQueueAction>().queue_id;
  return op;
}

void run(Execution&, OpBurst& burst) {
  for (size_t k = 0; k < burst.count; ++k) {
    set_queue(*burst.block->packets[burst.at[k]], burst.ops[k]->argument);
  }
}

/// The reference's ports have no queues.
bool reference(ReferencePacket&, const Action&) {
  return true;
}

constexpr WireForm kForms[] = {{.type = kType, .length = 8, .decode = decode}};

}  // namespace

extern const Operation operation_set_queue{
    .name = "set_queue",
    .forms = kForms,
    .encode = encode,
    .order = SetOrder::qos,
    .compile = compile,
    .run = run,
    .reference = reference,
};

const Operation& SetQueueAction::operation() {
  return operation_set_queue;
}

}  // namespace headrace::pipeline
