# SPDX-License-Identifier: Apache-2.0
"""Who limited a rate: the generator, the switch, a VNF, or unknown, decided from counters.

A poller that is always busy need not be the limit: a round that brought one packet counts as busy
as a whole. What distinguishes the limit is that work waits for it. Three signs show that, and they
are counted at both sides of each queue:

* it has next to no time left (idle share of its cycles, or empty polls where those are not told);
* its polls bring full bursts: more packets were waiting than it took;
* whoever sends to it is refused: the queue in front of it is full.

A generator can be the limit with time left in its counters' words (its bursts are not full where
receiving takes its time), so it is also compared with what it reaches over that kind of port with a
peer that is never slower: a rate near that ceiling, with nothing refused, is the generator's.

The path is looked at from its end: a queue that is full in front of a saturated VNF makes that VNF
the limit, even if the switch before it is saturated too (it spends what is left on packets that are
refused). Where two of those that could be the limit share a core, or the kernel took the core away,
the counters can't tell and the limit is unknown; VNFs that share a core are the limit together if
the queues in front of them are full, and are not if each of them now and then finds nothing to do
while a switch that always has more to take has no time left. A rate whose limit is the generator or
unknown is a lower bound of what the switch forwards.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Limiter = Literal["generator", "switch", "VNF", "unknown"]
Role = Literal["generator", "switch", "VNF"]

IDLE = 0.05
"""An element with a larger share of idle cycles has capacity left."""
FULL = 0.5
"""With a smaller share of full bursts, an element has no queue in front of it."""
REFUSED = 0.001
"""A queue is full if more than this share of the packets sent to it is refused."""
NEAR_CEILING = 0.9
"""Above this share of what the generator reaches over such a port it may have been the limit."""
FULL_QUEUE = 0.1
"""With a larger share refused, the queue was full most of the time."""
STOLEN = 0.15
"""Idle share that a switch with a full queue in front of it may show by what was taken from it."""
ON_CORE = 0.9
"""An element that had less of its core's time was slowed by other programs."""


@dataclass(frozen=True)
class Activity:
    """What one element of the path did during a trial. None: not counted here.

    Attributes:
        role: its kind.
        name: its name in a graph, or that of the program.
        idle_share: share of its cycles in rounds that found nothing.
        empty_share: share of its polls (of the worker's rounds at a switch) that found nothing.
        full_share: share of the bursts received that were full.
        refused_share: packets that the next queue did not take, of those sent to it.
        refused_by: role of the element behind that queue, "" if it has several kinds.
        on_core: share of the time in which the kernel ran it.
        core: the core that it polls on.
        inexhaustible: a generator that always has more to send, as an in-process source without a
            rate, which a switch polls: it can't be the limit.
        of_ceiling: a generator's rate as a share of what it reaches over this kind of port with a
            peer that is never slower (bench/port_ceilings.py).
    """

    role: Role
    name: str
    idle_share: float | None = None
    empty_share: float | None = None
    full_share: float | None = None
    refused_share: float | None = None
    refused_by: Role | Literal[""] = ""
    on_core: float | None = None
    core: int | None = None
    inexhaustible: bool = False
    of_ceiling: float | None = None

    @property
    def at_ceiling(self) -> bool:
        """Whether a generator sent and received about as much as it can over such a port."""
        return self.of_ceiling is not None and self.of_ceiling >= NEAR_CEILING

    @property
    def saturated(self) -> bool | None:
        """Whether it has no time left and packets wait for it; None where too little is counted."""
        spare = self.idle_share if self.idle_share is not None else self.empty_share
        if spare is None:
            return None
        return spare <= IDLE and (self.full_share is None or self.full_share >= FULL)

    def told(self) -> str:
        """The evidence in words."""
        parts = [
            f"{100 * share:.3g} % {what}"
            for share, what in (
                (self.idle_share, "idle"),
                (self.empty_share, "of polls empty"),
                (self.full_share, "of bursts full"),
                (self.refused_share, "of packets refused"),
                (self.on_core, "of the time on its core"),
                (self.of_ceiling, "of its ceiling over such a port"),
            )
            if share is not None
        ]
        return f"{self.name}: {', '.join(parts) or 'nothing counted'}"


@dataclass(frozen=True)
class Verdict:
    """The limiter of a rate, in words why, and what that was decided from."""

    limiter: Limiter
    reason: str
    evidence: tuple[Activity, ...] = ()

    @property
    def lower_bound(self) -> bool:
        """Whether the switch may forward more than was measured."""
        return self.limiter in ("generator", "unknown")

    def as_dict(self) -> dict[str, Any]:
        """For the results database."""
        return {
            "limiter": self.limiter,
            "reason": self.reason,
            "evidence": [asdict(activity) for activity in self.evidence],
        }


def decide(path: Sequence[Activity], *, sent_all: bool) -> Verdict:
    """The limiter of what arrived.

    Args:
        path: the generator, the switch, then the VNFs.
        sent_all: whether a load was set and all of it was sent and came back: then the load is what
            limited the rate, and the load is the generator's.
    """
    evidence = tuple(path)

    def verdict(limiter: Limiter, reason: str) -> Verdict:
        return Verdict(limiter, reason, evidence)

    if sent_all:
        return verdict("generator", "all of the load was sent and came back")
    generator = next(one for one in path if one.role == "generator")
    switch = next(one for one in path if one.role == "switch")
    vnfs = [one for one in path if one.role == "VNF"]
    suspects = [one for one in path if one.saturated and not one.inexhaustible]
    shared, roles = _sharing(generator, vnfs)
    if shared and roles == {"VNF"} and _is_full(switch):
        return verdict(
            "VNF", f"{shared}, and the queues in front of them are full: {switch.told()}"
        )
    if shared and roles == {"VNF"} and generator.inexhaustible and switch.saturated:
        spare = [vnf.idle_share is not None and vnf.idle_share > IDLE for vnf in vnfs]
        if all(spare):
            return _limits(switch, "switch", evidence)
        if _is_refused(switch) and switch.refused_by in ("VNF", ""):
            return verdict("VNF", f"{shared}, not all of them with time left: {switch.told()}")
    # What a switch without time left is always offered, and sends on without a loss, it limits.
    endless = generator.inexhaustible and not _is_refused(switch)
    if shared and not (switch.saturated and (_is_refused(generator) or endless)):
        return verdict("unknown", shared)
    for vnf in reversed(vnfs):
        if vnf.saturated and _is_refused(switch) and switch.refused_by in ("VNF", ""):
            return _limits(vnf, "VNF", evidence)
    if _is_refused(switch) and switch.refused_by == "generator":
        return verdict("generator", "it does not take back what the switch sends")
    if generator.at_ceiling and not _is_refused(generator):
        return verdict("generator", generator.told())
    if switch.saturated or _held_up(switch, generator):
        return _limits(switch, "switch", evidence)
    if generator.saturated and not generator.inexhaustible and not _is_refused(generator):
        return _limits(generator, "generator", evidence)
    if not suspects:
        slowed = [one for one in path if one.on_core is not None and one.on_core < ON_CORE]
        if slowed:
            names = ", ".join(one.name for one in slowed)
            return verdict("unknown", f"another program took the core of {names}")
        if switch.saturated is None:
            return verdict("unknown", "the switch does not count what it polls")
        return verdict("unknown", "no element was saturated")
    return verdict("unknown", f"{suspects[0].name} is saturated, but no queue in front of it fills")


def _held_up(switch: Activity, generator: Activity) -> bool:
    """Whether the switch's queue was full, although it seems to have had some time left.

    Time that a hypervisor takes is counted as idle: a switch that lets packets wait in a full queue
    while it has a tenth of its time left did not have that time.
    """
    refused = generator.refused_share is not None and generator.refused_share > FULL_QUEUE
    full = switch.full_share is None or switch.full_share >= FULL
    spare = switch.idle_share is not None and switch.idle_share <= STOLEN
    return refused and full and spare and not _is_refused(switch)


def _limits(one: Activity, limiter: Limiter, evidence: tuple[Activity, ...]) -> Verdict:
    reason = one.told()
    if one.on_core is not None and one.on_core < ON_CORE:
        reason += "; another program took its core"
    return Verdict(limiter, reason, evidence)


def _is_refused(one: Activity) -> bool:
    return one.refused_share is not None and one.refused_share > REFUSED


def _is_full(switch: Activity) -> bool:
    """Whether the VNFs' queues refuse so much that they are full most of the time."""
    refused = switch.refused_share is not None and switch.refused_share > FULL_QUEUE
    return refused and switch.refused_by in ("VNF", "")


def _sharing(generator: Activity, vnfs: Sequence[Activity]) -> tuple[str, set[Role]]:
    """Why the counters of generator and VNFs can't be told apart, and of whom; "" if they can."""
    cores: dict[int, list[Activity]] = {}
    for one in (generator, *vnfs):
        if one.core is not None and not one.inexhaustible:
            cores.setdefault(one.core, []).append(one)
    for core, sharing in cores.items():
        if len(sharing) > 1:
            names = " and ".join(one.name for one in sharing)
            return f"{names} share core {core}", {one.role for one in sharing}
    return "", set()
