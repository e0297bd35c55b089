# SPDX-License-Identifier: Apache-2.0
"""Whether a switch can carry a rule, by what its driver declares; why not, in the client's words.

Planning asks before anything is made, and drivers of switches that would accept a rule and do
something else ask again.
"""

from collections.abc import Iterable, Sequence

from headrace.switches.base import ActionKind, Capabilities
from headrace.switches.fields import FIELDS
from headrace.switches.rules import (
    CONTROLLER,
    Action,
    Normal,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
    SetQueue,
    overlap,
)


def lacks(switch: Capabilities, rule: Rule) -> str | None:
    """What the switch lacks to carry the rule; None if it can.

    The text goes on after the switch's name: `cannot match ip_dscp`.
    """
    for name, wanted in rule.match.items():
        if name not in switch.matches:
            known = ", ".join(switch.matches) or "nothing but the port"
            return f"cannot match {name}; it matches {known}"
        if wanted.mask != FIELDS[name].ones and name not in switch.masks:
            return f"cannot match single bits of {name}"
    if rule.is_timed and not switch.timeouts:
        return "has no timeouts"
    for kind in kinds_of(rule.actions):
        if kind not in switch.actions:
            return f"cannot {_WORDS[kind]}"
    for action in rule.actions:
        if isinstance(action, SetField) and action.field not in switch.sets:
            known = ", ".join(switch.sets) or "nothing"
            return f"cannot set {action.field}; it sets {known}"
    return None


_WORDS: dict[ActionKind, str] = {
    "output": "send to a port",
    "copy": "send a packet to several ports",
    "controller": "send to a controller of a graph's",
    "normal": "learn addresses",
    "select": "distribute flows over several ports",
    "push_vlan": "push VLAN tags",
    "pop_vlan": "pop VLAN tags",
    "set_field": "change headers",
    "set_queue": "use queues",
}


def kinds_of(actions: Sequence[Action]) -> Iterable[ActionKind]:
    """The kinds of actions that a list needs, in order."""
    outputs = 0
    for action in actions:
        match action:
            case Output(port=port) if port == CONTROLLER:
                yield "controller"
            case Output():
                outputs += 1
                yield "output" if outputs == 1 else "copy"
            case Select():
                yield "select"
                for bucket in action.buckets:
                    yield from kinds_of(bucket.actions)
            case Normal():
                yield "normal"
            case PushVlan():
                yield "push_vlan"
            case PopVlan():
                yield "pop_vlan"
            case SetField():
                yield "set_field"
            case SetQueue():
                yield "set_queue"


def undecided(switch: Capabilities, rules: Sequence[Rule]) -> tuple[Rule, Rule] | None:
    """Two rules that match the same packets, if the switch has no priorities to decide by."""
    if switch.priorities:
        return None
    by_port: dict[tuple[str, str], list[Rule]] = {}
    for rule in rules:
        others = by_port.setdefault((rule.lsi, rule.in_port), [])
        for other in others:
            if overlap(rule, other):
                return other, rule
        others.append(rule)
    return None
