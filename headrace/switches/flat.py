# SPDX-License-Identifier: Apache-2.0
"""The base of drivers of switches that have one table of rules and no LSIs: the node's are kept.

LSIs, the links between them and the rules of each are in a file. What the switch gets is what they
amount to: rules between its real ports (`flatten`). The file is written before the switch is
changed, and each change brings the switch to what the file says, so that a step can be repeated
after a crash.

A subclass makes the ports (`_make_port`, `_drop_port`) and brings the switch to a list of rules
(`_apply`).
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, ValidationError

from headrace.machine.processes import Supervisor, make_private, write_atomically
from headrace.switches.base import (
    Capabilities,
    LinkSpec,
    PortSpec,
    QueueSpec,
    SwitchError,
    SwitchSettings,
)
from headrace.switches.carrying import lacks, undecided
from headrace.switches.rules import Action, Bucket, Output, PopVlan, PushVlan, Rule, Select


class FlatState(BaseModel):
    """What the node has made; `notes` are a driver's own, by port."""

    lsis: list[str] = []
    ports: dict[str, PortSpec] = {}
    lsi_of: dict[str, str] = {}
    links: list[LinkSpec] = []
    rules: dict[str, Rule] = {}
    notes: dict[str, str] = {}

    @property
    def peers(self) -> dict[str, str]:
        """The other end of each end of a link."""
        found: dict[str, str] = {}
        for link in self.links:
            found[link.first_port], found[link.second_port] = link.second_port, link.first_port
        return found


def flatten(state: FlatState) -> list[Rule]:
    """The rules of real ports, with what lies behind links in place of the links.

    What comes out of a link is taken by one rule that matches all of it, as planning writes them;
    where there is none yet, nothing goes further. A flattened rule has the identity of the rule
    that it begins with. Rules that lead nowhere drop.
    """
    peers = state.peers
    behind = {rule.in_port: rule for rule in state.rules.values() if rule.in_port in peers}
    return [
        rule.model_copy(update={"actions": _real(_through(rule.actions, peers, behind))})
        for rule in state.rules.values()
        if rule.in_port not in peers and rule.in_port in state.ports
    ]


def _through(
    actions: Sequence[Action],
    peers: Mapping[str, str],
    behind: Mapping[str, Rule],
    passed: frozenset[str] = frozenset(),
) -> list[Action]:
    found: list[Action] = []
    for position, action in enumerate(actions):
        if isinstance(action, Select):
            buckets = []
            for bucket in action.buckets:
                inner = _through(bucket.actions, peers, behind, passed)
                plain = tuple(a for a in inner if isinstance(a, Output | PushVlan | PopVlan))
                buckets.append(Bucket(weight=bucket.weight, actions=plain))
            found.append(action.model_copy(update={"buckets": tuple(buckets)}))
            continue
        if not isinstance(action, Output) or action.port not in peers:
            found.append(action)
            continue
        end = peers[action.port]
        rule = behind.get(end)
        if rule is None or end in passed:  # nothing is there yet, or a loop
            continue
        inner = _through(rule.actions, peers, behind, passed | {end})
        found += inner
        if position + 1 < len(actions):
            # Behind a link is a copy of the packet: what is pushed there is not on the others.
            found += [PopVlan() for step in inner if isinstance(step, PushVlan)]
    return found


def _real(actions: list[Action]) -> tuple[Action, ...]:
    """Without what changes the packet after its last output; nothing, if there is no output."""
    last = max((n for n, a in enumerate(actions) if _sends(a)), default=-1)
    return tuple(actions[: last + 1])


def _sends(action: Action) -> bool:
    if isinstance(action, Select):
        return any(_sends(member) for bucket in action.buckets for member in bucket.actions)
    return action.kind in ("output", "normal")


class FlatDriver:
    """LSIs, links and rules in a file; see SwitchDriver."""

    name: str
    capabilities: Capabilities

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        self.settings = settings
        self._file = settings.rundir / f"{settings.named(self.name)}.json"
        self._state = FlatState()
        self._lock = asyncio.Lock()

    # Defined by subclasses.

    async def _make_port(self, port: PortSpec) -> None:
        """Makes a port that is noted already; again, if it is there.

        Raises:
            SwitchError: it cannot be had.
        """
        raise NotImplementedError

    async def _drop_port(self, port: PortSpec) -> None:
        """Removes a port that is noted no more."""
        raise NotImplementedError

    async def _apply(self, rules: list[Rule]) -> None:
        """Makes the switch have these rules and no others; returns when they are in force.

        Raises:
            SwitchError: it does not; names the rule by its label.
        """
        raise NotImplementedError

    async def _gone(self, ports: Mapping[str, PortSpec]) -> set[str]:
        """Those of the switch's ports that are not in service."""
        raise NotImplementedError

    # The rest is the same for all.

    def _load(self) -> bool:
        """Reads the state of the last run of the node; whether there is one."""
        try:
            self._state = FlatState.model_validate_json(self._file.read_text())
        except FileNotFoundError:
            return False
        except ValidationError as error:
            raise SwitchError(f"{self.name}: {self._file} is damaged: {error}") from error
        return True

    def _forget(self) -> None:
        self._file.unlink(missing_ok=True)
        self._state = FlatState()

    def processes(self) -> tuple[str, ...]:
        """See SwitchDriver: the switch is no process of the node's."""
        return ()

    def watched(self) -> tuple[str, ...]:
        """See SwitchDriver: the switch is no process of the node's."""
        return ()

    async def close(self) -> None:
        """Nothing is kept open."""

    def _write(self) -> None:
        make_private(self._file.parent)
        write_atomically(self._file, self._state.model_dump_json())

    async def _change(self) -> None:
        """Writes the state, then brings the switch to it."""
        self._write()
        await self._apply(flatten(self._state))

    async def create_lsi(self, lsi: str) -> None:
        """See SwitchDriver: noted."""
        async with self._lock:
            if lsi not in self._state.lsis:
                self._state.lsis.append(lsi)
                await self._change()

    async def delete_lsi(self, lsi: str) -> None:
        """See SwitchDriver."""
        async with self._lock:
            state = self._state
            gone = [state.ports[name] for name, owner in state.lsi_of.items() if owner == lsi]
            for port in gone:
                self._forget_port(port)
            state.links = [link for link in state.links if lsi not in (link.first, link.second)]
            state.rules = {key: rule for key, rule in state.rules.items() if rule.lsi != lsi}
            state.lsis = [name for name in state.lsis if name != lsi]
            await self._change()
            for port in gone:
                await self._drop_port(port)

    def _forget_port(self, port: PortSpec) -> None:
        for table in (self._state.ports, self._state.lsi_of, self._state.notes):
            table.pop(port.name, None)

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        if port.kind not in self.capabilities.offered:
            kinds = ", ".join(sorted(self.capabilities.offered))
            text = f"port {port.name}: {self.name} has no {port.kind} ports, only {kinds}"
            raise SwitchError(text)
        async with self._lock:
            if lsi not in self._state.lsis:
                raise SwitchError(f"port {port.name}: there is no LSI {lsi}")
            self._state.ports[port.name] = port
            self._state.lsi_of[port.name] = lsi
            try:
                await self._make_port(port)
                await self._change()
            except SwitchError:
                self._forget_port(port)
                await self._drop_port(port)
                raise

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        async with self._lock:
            self._forget_port(port)
            await self._change()
            await self._drop_port(port)

    async def connect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver: noted."""
        async with self._lock:
            if link not in self._state.links:
                self._state.links.append(link)
                await self._change()

    async def disconnect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        async with self._lock:
            self._state.links = [other for other in self._state.links if other != link]
            await self._change()

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        async with self._lock:
            self._check(rules)
            before = dict(self._state.rules)
            self._state.rules.update((rule.identity, rule) for rule in rules)
            try:
                await self._change()
            except SwitchError:
                self._state.rules = before
                await self._change()
                raise

    def _check(self, rules: Sequence[Rule]) -> None:
        """Refuses what the switch would not do as it is written.

        Raises:
            SwitchError: names the rule.
        """
        peers = self._state.peers
        for rule in rules:
            why = lacks(self.capabilities, rule)
            if why is None and rule.in_port in peers and rule.match:
                why = "has no LSIs of its own: what comes out of a link goes one way"
            if why is not None:
                raise SwitchError(f"{rule.label}: {self.name} {why}: [{rule}]")
            for port in (rule.in_port, *rule.outputs):
                if port not in self._state.ports and port not in peers:
                    raise SwitchError(f"{rule.label}: port {port} is not in service on {rule.lsi}")
        all_rules = {**self._state.rules, **{rule.identity: rule for rule in rules}}
        pair = undecided(self.capabilities, list(all_rules.values()))
        if pair is not None:
            text = f"{self.name} has no priorities, and {pair[0].label} matches the same packets"
            raise SwitchError(f"{pair[1].label}: {text}")

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        async with self._lock:
            for rule in rules:
                self._state.rules.pop(rule.identity, None)
            await self._change()

    async def replace_flows(self, lsi: str, flows: Sequence[str]) -> None:
        """See SwitchDriver: there are no LSIs."""
        raise SwitchError(f"LSI {lsi}: {self.name} has no LSIs that are VNFs")

    async def set_controller(self, lsi: str, address: str | None) -> None:
        """See SwitchDriver: without LSIs, no graph has the switch for itself."""
        if address is not None:
            raise SwitchError(f"LSI {lsi}: {self.name} has no controllers of graphs")

    async def add_queue(self, lsi: str, queue: QueueSpec) -> None:
        """See SwitchDriver: there are none."""
        raise SwitchError(f"port {queue.port}: {self.name} has no queues")

    async def remove_queue(self, lsi: str, queue: QueueSpec) -> None:
        """See SwitchDriver: there are none."""

    async def missing(self, ports: Collection[str]) -> set[str]:
        """See SwitchDriver: those that are not noted, or not in service."""
        known = {**dict.fromkeys(self._state.peers), **dict.fromkeys(self._state.ports)}
        held = {name: self._state.ports[name] for name in ports if name in self._state.ports}
        return {name for name in ports if name not in known} | await self._gone(held)
