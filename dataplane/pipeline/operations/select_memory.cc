// SPDX-License-Identifier: Apache-2.0
// Headrace's experimenter action memory: in any bucket of a select group, it makes the group
// remember the bucket of each flow (program/select_memory.h). It does nothing to packets.
//
// On the wire, after the subtype (experimenter.h): the idle timeout in seconds (u16), the pair
// (u32).
#include "pipeline/operations/experimenter.h"

namespace headrace::pipeline {
namespace {

OfResult<Action> decode(wire::Reader& body, ActionContext) {
  const uint16_t idle_timeout = body.u16();
  const uint32_t pair = body.u32();
  if (!body.ok()) return tl::unexpected(of_error::kBadActionLength);
  if (idle_timeout == 0) return tl::unexpected(of_error::kBadActionArgument);
  return Action(SelectMemoryAction{idle_timeout, pair});
}

void encode(wire::Writer& writer, const Action& action) {
  const ExperimenterWriter whole(writer, action, experimenter_subtype::kSelectMemory);
  writer.u16(action.arguments<SelectMemoryAction>().idle_timeout);
  writer.u32(action.arguments<SelectMemoryAction>().pair);
}

/// The group table takes it out of buckets before they are compiled; elsewhere it has no meaning.
OfResult<Op> compile(const Action&, ActionContext, Resolver&) {
  return tl::unexpected(of_error::kBadActionArgument);
}

void run(Execution&, OpBurst&) {}

bool reference(ReferencePacket&, const Action&) {
  return true;
}

constexpr WireForm kForms[] = {{.type = kExperimenterAction,
                                .experimenter = kHeadraceExperimenter,
                                .subtype = experimenter_subtype::kSelectMemory,
                                .decode = decode}};

}  // namespace

extern const Operation operation_select_memory{
    .name = "select_memory",
    .forms = kForms,
    .encode = encode,
    .compile = compile,
    .run = run,
    .reference = reference,
};

const Operation& SelectMemoryAction::operation() {
  return operation_select_memory;
}

}  // namespace headrace::pipeline
