// SPDX-License-Identifier: Apache-2.0
#include "openflow/codec/actions.h"

#include "pipeline/operations/experimenter.h"
#include "pipeline/operations/registry.h"

namespace headrace::openflow {
namespace {

using pipeline::Action;
using pipeline::ActionList;
using pipeline::FoundForm;
using pipeline::SetOrder;

/// An experimenter action's body, after its experimenter id and subtype.
OfResult<Action> decode_experimenter(Reader& body, ActionContext context) {
  using pipeline::kExperimenterAction;
  uint32_t experimenter = body.u32();
  const Reader after_id = body;
  uint16_t subtype = body.u16();
  Action::Form come_as = Action::Form::own;
  if (experimenter == pipeline::kNiciraExperimenter && subtype == pipeline::kNoteSubtype) {
    // A note that begins with our experimenter id contains one of our actions: see experimenter.h.
    experimenter = body.u32();
    subtype = body.u16();
    if (experimenter != pipeline::kHeadraceExperimenter || !body.ok()) {
      return of_fail(error::kActionBadExperimenter);
    }
    come_as = Action::Form::note;
  }
  const FoundForm found = pipeline::find_form(kExperimenterAction, experimenter, subtype);
  if (found.form == nullptr) {
    const bool ours = experimenter == pipeline::kHeadraceExperimenter && after_id.left() >= 2;
    return of_fail(ours ? error::kActionBadExpType : error::kActionBadExperimenter);
  }
  OfResult<Action> action = found.form->decode(body, context);
  if (!action) return action;
  if (!body.ok()) return of_fail(error::kActionBadLen);
  // A note is padded with zeros; an experimenter action has its exact length.
  const bool note = come_as == Action::Form::note;
  if (note ? body.left() >= 8 || !pipeline::all_zero(body.rest()) : body.left() > 0) {
    return of_fail(error::kActionBadLen);
  }
  action->set_form(come_as);
  return action;
}

OfResult<Action> decode_action(uint16_t type, size_t length, Reader& body, ActionContext context) {
  if (type == pipeline::kExperimenterAction) return decode_experimenter(body, context);
  const FoundForm found = pipeline::find_form(type);
  if (found.form == nullptr) return of_fail(error::kActionBadType);
  OfResult<Action> action = found.form->decode(body, context);
  if (!action) return action;
  const size_t fixed = found.form->length;
  if (!body.ok() || (fixed != 0 && fixed != length)) return of_fail(error::kActionBadLen);
  return action;
}

OfResult<> check(const Action& action, const KnownHeaders& known) {
  auto* const allowed = action.operation().allowed;
  if (allowed != nullptr && !allowed(action, known)) {
    return of_fail(error::kActionMatchInconsistent);
  }
  return {};
}

void learn(const Action& action, KnownHeaders& known) {
  if (action.operation().learn != nullptr) action.operation().learn(action, known);
}

}  // namespace

OfResult<ActionList> decode_actions(Bytes bytes, ActionContext context) {
  ActionList actions;
  Reader reader(bytes);
  while (reader.left() > 0) {
    const uint16_t type = reader.u16();
    const uint16_t length = reader.u16();
    if (!reader.ok() || length < 8 || length % 8 != 0) return of_fail(error::kActionBadLen);
    Reader body(reader.bytes(length - 4u));
    if (!reader.ok()) return of_fail(error::kActionBadLen);
    OfResult<Action> action = decode_action(type, length, body, context);
    if (!action) return of_fail(action.error());
    actions.push_back(*action);
  }
  return actions;
}

void encode_actions(Writer& writer, const ActionList& actions) {
  for (const Action& action : actions) action.operation().encode(writer, action);
}

OfResult<> check_consistency(const ActionList& actions, KnownHeaders& known) {
  for (const Action& action : actions) {
    if (OfResult<> checked = check(action, known); !checked) return checked;
    learn(action, known);
  }
  return {};
}

OfResult<> check_set_consistency(const ActionList& actions, const KnownHeaders& known) {
  KnownHeaders after = known;
  for (unsigned order = 0; order < static_cast<unsigned>(SetOrder::set); ++order) {
    for (const Action& action : actions) {
      if (static_cast<unsigned>(action.operation().order) == order) learn(action, after);
    }
  }
  for (const Action& action : actions) {
    if (OfResult<> checked = check(action, after); !checked) return checked;
  }
  return {};
}

}  // namespace headrace::openflow
