# SPDX-License-Identifier: Apache-2.0
"""Brings what exists of a graph to a plan, step by step, each logged before.

One function serves creation (from nothing), update (from the old plan), deletion (to nothing), undo
and recovery after a crash: it compares the store's rows with the plan, makes what is missing or
different in the plan's order, then removes what the plan does not have in the opposite order. What
is `done` and equal is not touched. Everything it calls is idempotent, so a row of state `intent` or
`removing` is simply tried again.

What exists by the same key but otherwise than wanted is removed before it is made anew, by who has
made it: a VNF that goes from one engine to another, a port with other options. Rules on such a port
go with it, since a switch knows them by the port's number. A rule that differs is replaced in
place, without a gap.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import groupby

from headrace.engines.base import Engine, VnfSpec, engine_of
from headrace.node.deployment.store import StepRow, Store
from headrace.node.host_stack import HostStack
from headrace.node.planning.resources import (
    ControllerResource,
    HostInterfaceResource,
    LinkResource,
    LsiResource,
    Plan,
    PortResource,
    QueueResource,
    Resource,
    RuleResource,
    VnfResource,
)
from headrace.switches.base import (
    PortKind,
    PortSpec,
    RuleStatistics,
    SwitchDriver,
    SwitchError,
)
from headrace.switches.rules import Rule

Progress = Callable[[int, int], None]
RuleCount = tuple[Rule, RuleStatistics]

_RANK = {
    "lsi": 0,
    "link": 1,
    "port": 2,
    "queue": 3,
    "controller": 4,
    "vnf": 5,
    "rule": 6,
    "host": 7,
}


_STARTED_AT_ONCE = 16
"""VNFs that start at the same time: of a hundred none would be there before its patience ends."""


class Transition:
    """Makes and removes resources through a switch driver and the engines."""

    def __init__(
        self, store: Store, driver: SwitchDriver, engines: Mapping[str, Engine], host: HostStack
    ) -> None:
        self._host = host
        self._store = store
        self._driver = driver
        self._engines = engines
        # One graph may begin to use the LSI of a group while another, its last user, leaves it.
        self._group_lsis = asyncio.Lock()
        self._starting = asyncio.Semaphore(_STARTED_AT_ONCE)

    async def run(
        self,
        graph_id: str,
        target: Plan,
        *,
        distrust: bool = False,
        held: frozenset[str] = frozenset(),
        progress: Progress = lambda done, total: None,
    ) -> None:
        """Brings graph `graph_id` to `target`; `distrust` makes even what is noted as done again.

        That it is done is on disk with the store's next transaction.

        VNFs that are `held` (their ids) stay ended.

        Raises:
            SwitchError, EngineError: a step failed; the rows tell how far it came.
        """
        rows = {row.key: row for row in self._store.steps(graph_id)}
        wanted = {resource.key: resource for resource in target.resources}
        lost = await self._lost(rows.values())
        replaced = _replaced(rows.values(), wanted, lost)
        gone = {resource.key for resource in replaced}
        expired = {
            key
            for key, row in rows.items()
            if row.state == "expired" and _same(wanted.get(key), row.resource) and key not in gone
        }
        missing = [
            resource
            for resource in target.resources
            if (distrust and resource.key not in expired)
            or resource.key not in rows
            or resource.key in gone
            or (rows[resource.key].state != "done" and resource.key not in expired)
            or not _same(rows[resource.key].resource, resource)
            or not self._still_there(resource, held)
        ]
        surplus = _last_first(row.resource for row in rows.values() if row.key not in wanted)
        total, done = len(missing) + len(surplus) + len(replaced), 0
        progress(done, total)
        for batch in _batches(replaced):
            await self._remove_noted(graph_id, batch)
            done += len(batch)
            progress(done, total)
        # Whatever may come to be there is on disk before the first of it is made.
        kept = {key: row for key, row in rows.items() if key not in gone}
        new = [r for r in missing if not (r.key in kept and _is_noted(kept[r.key], r))]
        # Of rules alone both are noted at once. Others may be asked for by other graphs meanwhile.
        early = surplus if all(isinstance(r, RuleResource) for r in surplus) else []
        self._store.intend(graph_id, new, early)
        noted = {resource.key for resource in new}
        for batch in _batches(missing):
            await self._make(batch)
            self._store.done(graph_id, [resource for resource in batch if resource.key in noted])
            done += len(batch)
            progress(done, total)
        if surplus and not early:
            self._store.removing(graph_id, surplus)
        for batch in _batches(surplus):
            await self._remove(graph_id, batch)
            done += len(batch)
            progress(done, total)
        self._store.forget(graph_id, surplus)

    async def restart(self, graph_id: str, vnfs: list[VnfSpec]) -> bool:
        """Starts VNFs that have ended, if nothing else of the graph has gone with them.

        False if something may have, as the pairs of a VNF with interfaces; then nothing is done.

        Raises:
            SwitchError, EngineError: they cannot be started.
        """
        ports = [port.switch_port for vnf in vnfs for port in vnf.ports]
        if any(port.kind is PortKind.VETH for port in ports):
            return False
        if await self._driver.missing([port.name for port in ports]):
            return False
        resources: list[Resource] = [VnfResource(vnf=vnf) for vnf in vnfs]
        self._store.intend(graph_id, resources)
        await self._make(resources)
        self._store.done(graph_id, resources)
        self._store.write_notes()
        return True

    async def changing_ports(self, graph_id: str, target: Plan) -> set[str]:
        """The names of ports that `run` will remove or replace."""
        wanted = {resource.key: resource for resource in target.resources}
        rows = self._store.steps(graph_id)
        changed = {
            name
            for row in rows
            if not _same(wanted.get(row.key), row.resource)
            for name in _ports_of(row.resource)
        }
        return changed | await self._lost(rows)

    async def note_expired(self, graph_id: str) -> list[RuleCount]:
        """Notes which rules have gone by their timeouts; what those that are there have counted.

        Raises:
            SwitchError: the switch does not answer.
        """
        timed = [
            row.resource
            for row in self._store.steps(graph_id)
            if row.state == "done"
            and isinstance(row.resource, RuleResource)
            and row.resource.rule.is_timed
        ]
        there: list[RuleCount] = []
        gone: list[Resource] = []
        for lsi in sorted({resource.rule.lsi for resource in timed}):
            found = {row.cookie: row for row in await self._driver.rule_statistics(lsi)}
            for resource in timed:
                if resource.rule.lsi != lsi:
                    continue
                if resource.rule.cookie in found:
                    there.append((resource.rule, found[resource.rule.cookie]))
                else:
                    gone.append(resource)
        self._store.expired(graph_id, gone)
        return there

    def expired(self, graph_id: str) -> list[Rule]:
        """The rules of a graph that have gone by their timeouts."""
        return [
            row.resource.rule
            for row in self._store.steps(graph_id)
            if row.state == "expired" and isinstance(row.resource, RuleResource)
        ]

    def is_whole(self, plan: Plan, lost: set[str], held: frozenset[str] = frozenset()) -> bool:
        """Whether everything of a plan that was made is there; ports `lost` are not.

        Nobody looks at VNFs that are `held` (their ids).
        """
        vnfs = (vnf for vnf in plan.vnfs() if vnf.vnf not in held)
        return (
            lost.isdisjoint(ports_of(plan))
            and all(engine_of(self._engines, vnf).running(vnf) for vnf in vnfs)
            and all(self._host.is_there(interface) for interface in plan.host_interfaces())
        )

    def not_running(self, plan: Plan) -> list[VnfSpec]:
        """The VNFs of a plan that do not run as specified."""
        return [v for v in plan.vnfs() if not engine_of(self._engines, v).running(v)]

    async def stop(self, vnf: VnfSpec) -> None:
        """Ends a VNF that stays noted as made, so that the next `run` starts it again."""
        await engine_of(self._engines, vnf).stop(vnf)

    async def _lost(self, rows: Iterable[StepRow]) -> set[str]:
        """The names of ports that were made and have gone by another's hand."""
        made = [row.resource for row in rows if row.state == "done"]
        names = {name for resource in made for name in _ports_of(resource)}
        if not names:
            return set()
        return await self._driver.missing(names) | (names & self._going(made))

    def _going(self, made: Iterable[Resource]) -> set[str]:
        """The veth ports of VNFs that have ended: the kernel removes the pairs a little later."""
        ended = (
            resource.vnf
            for resource in made
            if isinstance(resource, VnfResource)
            and engine_of(self._engines, resource.vnf).observed(resource.vnf) is None
        )
        return {port.name for port in _interfaces(ended) if port.kind is PortKind.VETH}

    async def detach(self, graph_id: str, ports: set[str]) -> None:
        """Removes the graph's rules on these ports; its next `run` makes them again."""
        rules = [
            row.resource
            for row in self._store.steps(graph_id)
            if isinstance(row.resource, RuleResource) and _uses(row.resource.rule, ports)
        ]
        for batch in _batches(_last_first(rules)):
            await self._remove_noted(graph_id, batch)
        self._store.write_notes()

    async def _remove_noted(self, graph_id: str, batch: list[Resource]) -> None:
        self._store.removing(graph_id, batch)
        await self._remove(graph_id, batch)
        self._store.forget(graph_id, batch)

    def _still_there(self, resource: Resource, held: frozenset[str]) -> bool:
        """Whether a VNF runs as it was started; lost ports are known by `_lost`."""
        if isinstance(resource, HostInterfaceResource):
            return self._host.is_there(resource)
        if isinstance(resource, VnfResource) and resource.vnf.vnf not in held:
            return engine_of(self._engines, resource.vnf).running(resource.vnf)
        return True

    async def _make(self, batch: list[Resource]) -> None:
        """Makes resources of one kind, at once where they do not depend on each other."""
        if isinstance(batch[0], VnfResource):
            vnfs = list(_vnfs(batch))
            await _all(self._start(vnf) for vnf in vnfs)
            if ports := _interfaces(vnfs):
                await self._driver.wait_for_links(ports)
        elif isinstance(batch[0], RuleResource):
            await self._driver.install_rules(batch[0].rule.lsi, list(_rules(batch)))
        else:
            await _all(self._make_one(resource) for resource in batch)

    async def _start(self, vnf: VnfSpec) -> None:
        async with self._starting:
            await engine_of(self._engines, vnf).ensure(vnf)

    async def _make_one(self, resource: Resource) -> None:
        match resource:
            case LsiResource():
                async with self._groups_lock(resource):
                    await self._driver.create_lsi(resource.lsi)
            case LinkResource():
                await self._driver.connect_lsis(resource.link)
            case PortResource():
                await self._driver.add_port(resource.lsi, resource.port)
            case QueueResource():
                await self._driver.add_queue(resource.lsi, resource.queue)
            case ControllerResource():
                await self._driver.set_controller(resource.lsi, resource.address)
            case HostInterfaceResource():
                iface = self._driver.attach(resource.port).iface
                if iface is None:
                    raise SwitchError(f"port {resource.port.name} is no interface of the kernel")
                await self._host.ensure(resource, iface)

    async def _remove(self, graph_id: str, batch: list[Resource]) -> None:
        """Removes resources of one kind."""
        if isinstance(batch[0], VnfResource):
            await _all(engine_of(self._engines, vnf).stop(vnf) for vnf in _vnfs(batch))
        elif isinstance(batch[0], RuleResource):
            await self._driver.remove_rules(batch[0].rule.lsi, list(_rules(batch)))
        else:
            await _all(self._remove_one(graph_id, resource) for resource in batch)

    async def _remove_one(self, graph_id: str, resource: Resource) -> None:
        match resource:
            case LsiResource():
                async with self._groups_lock(resource):
                    shared = resource.group is not None
                    if not (shared and self._store.held_by_others(graph_id, resource.key)):
                        await self._driver.delete_lsi(resource.lsi)
            case LinkResource():
                await self._driver.disconnect_lsis(resource.link)
            case PortResource():
                await self._driver.remove_port(resource.lsi, resource.port)
            case QueueResource():
                await self._driver.remove_queue(resource.lsi, resource.queue)
            case ControllerResource():
                await self._driver.set_controller(resource.lsi, None)
            case HostInterfaceResource():
                await self._host.remove(resource)

    def _groups_lock(self, lsi: LsiResource) -> AbstractAsyncContextManager[None]:
        """Held while the LSI of a group is made or removed; a graph's own needs none."""
        return contextlib.nullcontext() if lsi.group is None else self._group_lsis


def _is_noted(row: StepRow, resource: Resource) -> bool:
    """Whether a resource is on disk as one that may be there, as it is wanted."""
    return row.state == "done" and _same(row.resource, resource)


def _same(one: Resource | None, other: Resource) -> bool:
    """Whether two resources are equal; of a large graph's rules most are the same object."""
    return one is other or one == other


def _last_first(resources: Iterable[Resource]) -> list[Resource]:
    """In the order of removal."""
    return sorted(reversed(list(resources)), key=lambda r: -_RANK[r.kind])


def _ports_of(resource: Resource) -> tuple[str, ...]:
    if isinstance(resource, PortResource):
        return (resource.port.name,)
    if isinstance(resource, LinkResource):
        return (resource.link.first_port, resource.link.second_port)
    return ()


def ports_of(plan: Plan) -> set[str]:
    """The names of the ports that a plan makes, the ends of its links included."""
    return {name for resource in plan.resources for name in _ports_of(resource)}


def _replaced(
    rows: Iterable[StepRow], wanted: Mapping[str, Resource], lost: set[str]
) -> list[Resource]:
    """What must go before its successor of the same key can be made, in the order of removal."""
    held = [row.resource for row in rows if row.key in wanted]
    ports: set[str] = set()
    found: list[Resource] = []
    for old in held:
        new = wanted[old.key]
        its_ports = set(_ports_of(old))
        if isinstance(old, RuleResource):
            # In place, a rule that no longer selects would leave its group behind.
            if old.rule.select and not (isinstance(new, RuleResource) and new.rule.select):
                found.append(old)
            continue
        if _same(old, new) and not its_ports & lost:
            continue
        ports |= its_ports
        if _same_maker(old, new):
            continue
        found.append(old)
    found += [
        old
        for old in (held if ports else ())
        if isinstance(old, RuleResource) and _uses(old.rule, ports) and old not in found
    ]
    return _last_first(found)


def _same_maker(old: Resource, new: Resource) -> bool:
    """Whether both are VNFs of one engine and name: then that engine replaces it."""
    if not isinstance(old, VnfResource) or not isinstance(new, VnfResource):
        return False
    return _maker(old.vnf) == _maker(new.vnf)


def _maker(vnf: VnfSpec) -> tuple[str, str, str]:
    """By whom a VNF is made, and under which name: an engine's functions may differ in that."""
    return vnf.engine, vnf.function, vnf.name


def _uses(rule: Rule, ports: set[str]) -> bool:
    return not ports.isdisjoint({rule.in_port, *rule.outputs})


async def _all(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Does all at once and waits for all; raises the first failure."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if result is not None:
            raise result


def _vnfs(batch: list[Resource]) -> Iterator[VnfSpec]:
    return (r.vnf for r in batch if isinstance(r, VnfResource))


def _interfaces(vnfs: Iterable[VnfSpec]) -> list[PortSpec]:
    """The ports that are interfaces of the kernel: their links come and go with the VNF's ends."""
    ports = (port.switch_port for vnf in vnfs for port in vnf.ports)
    return [port for port in ports if port.kind in (PortKind.VETH, PortKind.TAP)]


def _rules(batch: list[Resource]) -> Iterator[Rule]:
    return (r.rule for r in batch if isinstance(r, RuleResource))


def _batches(resources: Iterable[Resource]) -> Iterator[list[Resource]]:
    """Adjacent ones of one kind, and of one LSI if they are rules: these share a barrier."""

    def group(resource: Resource) -> tuple[str, str]:
        return resource.kind, resource.rule.lsi if isinstance(resource, RuleResource) else ""

    for _, members in groupby(resources, group):
        yield list(members)
