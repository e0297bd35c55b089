# SPDX-License-Identifier: Apache-2.0
"""A forwarding rule, written by the node and read by every switch driver.

Ports are named, not numbered: a driver looks the number up when it installs the rule, so a rule
stays valid when a switch is restarted and renumbers its ports.
"""

import hashlib
from functools import cached_property, lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from headrace.switches.fields import FIELDS, VLAN_PRESENT

LOCAL = "(local)"
"""The port of the switch itself on each LSI, as a rule names it (OpenFlow's LOCAL)."""

CONTROLLER = "(controller)"
"""The controller of an LSI, as a rule names it where it sends to it (OpenFlow's CONTROLLER)."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldMatch(_Frozen):
    """The bits of a field that are one in `mask` must equal those of `value`."""

    value: int
    mask: int


class Output(_Frozen):
    """Sends the packet, as modified so far, to a port of the same LSI."""

    kind: Literal["output"] = "output"
    port: str


class Normal(_Frozen):
    """Sends the packet as a learning switch does (OpenFlow's reserved port NORMAL)."""

    kind: Literal["normal"] = "normal"


class PushVlan(_Frozen):
    """Adds an 802.1Q tag in front of all others and sets its VLAN id."""

    kind: Literal["push_vlan"] = "push_vlan"
    vlan_id: int


class PopVlan(_Frozen):
    """Removes the outermost 802.1Q tag."""

    kind: Literal["pop_vlan"] = "pop_vlan"


class SetQueue(_Frozen):
    """Makes the outputs behind it use a queue of their ports, by its number there."""

    kind: Literal["set_queue"] = "set_queue"
    queue: int


class SetField(_Frozen):
    """Overwrites a whole header field; `field` is a name of `fields.FIELDS`."""

    kind: Literal["set_field"] = "set_field"
    field: str
    value: int


class Bucket(_Frozen):
    """One of the ways that a `Select` sends flows, in proportion to its weight."""

    weight: int
    actions: tuple[Annotated[Output | PushVlan | PopVlan, Field(discriminator="kind")], ...]


class Select(_Frozen):
    """Sends each flow to one of the buckets, always to the same (OpenFlow's select group).

    Those of one `pair` (not 0) lead to the same places in the same order, such as the ports of a
    VNF's replicas on either side: a switch that keeps flows keeps a flow and what answers it at the
    same number.
    """

    kind: Literal["select"] = "select"
    buckets: tuple[Bucket, ...]
    pair: int = 0


Action = Annotated[
    Output | Normal | Select | PushVlan | PopVlan | SetField | SetQueue,
    Field(discriminator="kind"),
]


class Needs(NamedTuple):
    """What a rule asks of a switch, and many rules in the same way.

    `masks` are the fields that it matches, by name, `actions` their kinds and the fields that they
    set, in order.
    """

    masks: tuple[tuple[str, int], ...]
    actions: tuple[str, ...]
    is_timed: bool


@lru_cache(maxsize=4096)
def _shared(needs: Needs) -> Needs:
    """The same object for equal needs, of which a node has few."""
    return needs


class Rule(_Frozen):
    """Actions of `lsi` on packets that are received on `in_port` and match; no action means drop.

    `cookie` (64 bit) identifies the rule in the switch: see `cookie_of`. `label` is the place in
    the client's document that caused the rule, for errors and statistics. The switch removes the
    rule by itself after `hard_timeout` seconds, or `idle_timeout` without a packet; 0 is never.
    """

    lsi: str
    label: str
    priority: int
    in_port: str
    match: dict[str, FieldMatch] = {}
    actions: tuple[Action, ...] = ()
    idle_timeout: int = 0
    hard_timeout: int = 0

    def __copy__(self) -> "Rule":
        """A copy that is to be changed has another identity."""
        copied = super().__copy__()
        for name in ("identity", "cookie", "needs", "outputs", "select"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def identity(self) -> str:
        """Equal for two rules that a flow table cannot hold at once: same LSI, priority, match."""
        fields = ",".join(f"{n}={m.value:x}/{m.mask:x}" for n, m in sorted(self.match.items()))
        return f"{self.lsi}|{self.priority}|{self.in_port}|{fields}"

    @cached_property
    def cookie(self) -> int:
        """64 bits that identify this rule in the switch, derived from its identity."""
        digest = hashlib.blake2b(self.identity.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1  # all ones is reserved by OpenFlow

    @cached_property
    def needs(self) -> Needs:
        """What the rule asks of a switch."""
        masks = tuple(sorted((name, wanted.mask) for name, wanted in self.match.items()))
        return _shared(Needs(masks, tuple(map(_asks, self.actions)), self.is_timed))

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The ports that the rule sends to, in order."""
        found: list[str] = []
        for action in self.actions:
            members = (
                [action]
                if not isinstance(action, Select)
                else [member for bucket in action.buckets for member in bucket.actions]
            )
            found += [member.port for member in members if isinstance(member, Output)]
        return tuple(found)

    @cached_property
    def select(self) -> Select | None:
        """What distributes the flows of this rule, if anything does."""
        return next((action for action in self.actions if isinstance(action, Select)), None)

    @property
    def is_timed(self) -> bool:
        """Whether the rule goes by itself."""
        return bool(self.idle_timeout or self.hard_timeout)

    def is_plain(self) -> bool:
        """Whether all of `in_port` goes to one port, unchanged."""
        changed = self.match or self.is_timed
        return not changed and len(self.actions) == 1 and isinstance(self.actions[0], Output)

    def __str__(self) -> str:
        fields = [f"in_port={self.in_port}"]
        for name, wanted in self.match.items():
            field = FIELDS[name]
            text = field.text(wanted.value)
            if name == "vlan_vid":
                text = str(wanted.value & ~VLAN_PRESENT) if wanted.value else "none"
            if wanted.mask != field.ones:
                text += f"/{field.text(wanted.mask)}"
            fields.append(f"{name}={text}")
        actions = []
        for action in self.actions:
            if isinstance(action, Output):
                actions.append(f"output:{action.port}")
            elif isinstance(action, Select):
                ports = "|".join(self.outputs)
                actions.append(f"select:{ports}")
            elif isinstance(action, Normal):
                actions.append("normal")
            elif isinstance(action, PushVlan):
                actions.append(f"push_vlan:{action.vlan_id}")
            elif isinstance(action, PopVlan):
                actions.append("pop_vlan")
            elif isinstance(action, SetQueue):
                actions.append(f"set_queue:{action.queue}")
            else:
                actions.append(f"set {action.field}={FIELDS[action.field].text(action.value)}")
        for name in ("idle_timeout", "hard_timeout"):
            if getattr(self, name):
                fields.append(f"{name}={getattr(self, name)}")
        return f"priority={self.priority},{','.join(fields)} -> {','.join(actions) or 'drop'}"


def _asks(action: Action) -> str:
    """What an action asks of a switch: all that `lacks` (carrying.py) looks at."""
    if isinstance(action, SetField):
        return f"set {action.field}"
    if isinstance(action, Output):
        return "controller" if action.port == CONTROLLER else "output"
    if isinstance(action, Select):
        inside = (",".join(map(_asks, bucket.actions)) for bucket in action.buckets)
        return f"select {' '.join(sorted(set(inside)))}"
    return action.kind


def overlap(one: Rule, other: Rule) -> bool:
    """Whether some packet matches both rules (OpenFlow 1.3.5, section 6.4: overlapping entries)."""
    if (one.lsi, one.in_port) != (other.lsi, other.in_port):
        return False
    for name in one.match.keys() & other.match.keys():
        common = one.match[name].mask & other.match[name].mask
        if (one.match[name].value ^ other.match[name].value) & common:
            return False
    return True


def covers(wide: Rule, narrow: Rule) -> bool:
    """Whether every packet that matches `narrow` also matches `wide`."""
    if not overlap(wide, narrow):
        return False
    for name, wanted in wide.match.items():
        have = narrow.match.get(name)
        if have is None or wanted.mask & ~have.mask:
            return False
    return True
