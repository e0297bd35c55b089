# SPDX-License-Identifier: Apache-2.0
"""The ports of LSI-0: those of node.yaml, and those that come and go while the node runs.

The latter, such as the interfaces of pods, are in the node's database, so they are there again
after a restart, and graphs use them as those of node.yaml, by their names. Each has an owner, a
text of the client's choice: a port under a name that another owner has is refused, so a late
request for an earlier pod does not take the port of its successor.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import if_nametoindex

from headrace.engines.base import EngineError
from headrace.node.config import NodeConfig, PortConfig
from headrace.node.deployment.store import Store
from headrace.node.errors import Busy, ConfigError, GraphRefused, NotFound
from headrace.node.planning.ports import port_spec
from headrace.node.planning.resources import (
    LinkResource,
    LsiResource,
    Plan,
    PortResource,
    Resource,
    RuleResource,
)
from headrace.node.planning.tunnels import underlay_rules
from headrace.switches.base import TUNNELS, PortKind, PortSpec, SwitchDriver, SwitchError
from headrace.switches.rules import CONTROLLER, LOCAL

log = logging.getLogger("headrace.node")


@dataclass(frozen=True)
class AttachedPort:
    """An attached port: as node.yaml would have it, and whose it is."""

    port: PortConfig
    owner: str


class OuterPorts:
    """The ports of LSI-0, `specs` by their names outside; belongs to the node's event loop.

    `prepare` makes LSI-0 hold a plan, `users` names the graphs with rules on a port of an LSI,
    `repair` makes again what such a graph lacks; the node sets them. `changing` is held by whoever
    changes LSI-0.
    """

    prepare: Callable[[Plan, bool], Awaitable[None]]
    users: Callable[[str, str], list[str]]
    repair: Callable[[str], Awaitable[None]]

    def __init__(
        self, config: NodeConfig, driver: SwitchDriver, store: Store, rundir: Path, lsi0: str
    ) -> None:
        """Without `ports` in node.yaml there are p0 and p1, of the switch's first kind.

        Raises:
            ConfigError: the switch does not have one of the ports.
        """
        self._config, self._driver, self._store = config, driver, store
        self._rundir, self._lsi0 = rundir, lsi0
        self._attached = {
            name: AttachedPort(PortConfig.model_validate_json(content), owner)
            for name, content, owner in store.rows(
                "SELECT name, content, owner FROM attached_port ORDER BY name"
            )
        }
        self.changing = asyncio.Lock()
        self.specs: dict[str, PortSpec] = {}
        configured = config.ports
        if configured is None:
            offered = driver.capabilities.port_kinds
            configured = [PortConfig(name=name, kind=offered[0]) for name in ("p0", "p1")]
        for number, port in enumerate(configured):
            self.specs[port.name] = self._spec(port, f"ports[{number}]")
        for name, attached in self._attached.items():
            if name in self.specs:
                text = f"ports: {name} was attached to the node while it ran; use another name"
                raise ConfigError("config", text)
            self.specs[name] = self._spec(attached.port, f"attached port {name}")

    def owners(self) -> Mapping[str, str]:
        """The owners of the attached ports, by the ports' names."""
        return {name: attached.owner for name, attached in self._attached.items()}

    def _spec(self, port: PortConfig, place: str) -> PortSpec:
        """A port for the switch; `place` is where it was asked for.

        Raises:
            ConfigError: the switch has no such port.
        """
        offered = self._driver.capabilities.port_kinds
        switch = self._config.switch
        if port.kind not in offered:
            text = f"{place}.kind: switch {switch} has no {port.kind} ports; it has: "
            raise ConfigError("config", text + ", ".join(offered))
        if port.addresses and not TUNNELS.keys() & {*self._driver.capabilities.end_points}:
            text = f"{place}.addresses: switch {switch} has no tunnels, for which they are"
            raise ConfigError("config", text)
        if port.kind == "dpdk" and "devargs" not in port.options:
            text = f"{place}.options: a dpdk port needs devargs (PCI address or vdev)"
            raise ConfigError("config", text)
        # A switch knows an existing interface by the interface's own name.
        name = port.options.get("iface", port.name) if port.kind == "system" else port.name
        sockets, labels = self._rundir / "ports", {"port": port.name}
        return port_spec(name, port.kind, port.options, sockets, self._rundir, labels)

    def lacking(self, plan: Plan) -> list[str]:
        """The ports of LSI-0 that a graph's plan uses and that are not attached any more."""
        used = {
            port
            for rule in plan.rules()
            if rule.lsi == self._lsi0
            for port in (rule.in_port, *rule.outputs)
        }
        links = [r.link for r in plan.resources if isinstance(r, LinkResource)]
        inner = {port for link in links for port in (link.first_port, link.second_port)}
        known = {spec.name for spec in self.specs.values()} | {LOCAL, CONTROLLER}
        return sorted(used - inner - known)

    async def plan(self) -> Plan:
        """What LSI-0 is to hold: all ports but attached ones whose interface has gone.

        Raises:
            SwitchError: the switch does not answer.
        """
        gone = await self._interfaces_gone()
        resources: list[Resource] = [LsiResource(lsi=self._lsi0)]
        resources += [
            PortResource(lsi=self._lsi0, port=port)
            for name, port in self.specs.items()
            if name not in gone
        ]
        for rule in underlay_rules(self._config.ports or [], self.specs, self._lsi0):
            resources.append(RuleResource(rule=rule))
        return Plan(resources=tuple(resources))

    async def missing(self) -> set[str]:
        """The ports that the switch has lost and that can be made again, by the switch's names.

        Raises:
            SwitchError: the switch does not answer.
        """
        gone = await self._interfaces_gone()
        names = [spec.name for name, spec in self.specs.items() if name not in gone]
        return await self._driver.missing(names)

    async def _interfaces_gone(self) -> set[str]:
        """The attached ports whose interfaces neither the switch nor the machine has.

        A switch may have taken an interface into a network namespace of its own.
        """
        absent = {name for name in self._attached if _lacks_interface(self.specs[name])}
        if not absent:
            return set()
        missing = await self._driver.missing([self.specs[name].name for name in absent])
        return {name for name in absent if self.specs[name].name in missing}

    async def attach(self, port: PortConfig, owner: str) -> bool:
        """Adds a port while the node runs; whether there was none of its name.

        A port of the same name and owner is replaced if it differs, and else stays as it is.

        Raises:
            Busy: the name is that of a port of node.yaml, or of another owner.
            GraphRefused: the switch or the machine has no such port.
            SwitchError: it cannot be made; nothing is left of it.
        """
        async with self.changing:
            before = self._attached.get(port.name)
            if before is None and port.name in self.specs:
                raise Busy("ports", f"{port.name} is a port of node.yaml; use another name")
            if before is not None and before.owner != owner:
                text = f"{port.name} is attached by {before.owner!r}, which has to detach it first"
                raise Busy("ports", text)
            if port.addresses:
                text = "port.addresses: only ports of node.yaml have addresses for tunnels"
                raise GraphRefused("ports", text)
            try:
                spec = self._spec(port, "port")
            except ConfigError as error:
                raise GraphRefused("ports", str(error)) from error
            others = [n for n, s in self.specs.items() if s.name == spec.name and n != port.name]
            if others:
                raise Busy("ports", f"{spec.name} is the node's port {others[0]} already")
            if _lacks_interface(spec) and await self._driver.missing([spec.name]):
                text = f"port.options.iface: this machine has no interface {spec.name}"
                raise GraphRefused("ports", text)
            row = (port.name, port.model_dump_json(), owner)
            self._store.write("INSERT OR REPLACE INTO attached_port VALUES (?,?,?)", *row)
            self._attached[port.name] = AttachedPort(port, owner)
            self.specs[port.name] = spec
            try:
                await self.prepare(await self.plan(), True)
            except SwitchError:
                await self._forget(port.name)
                raise
        # Graphs that were left without the port by an earlier detachment have it again.
        for graph_id in self.users(self._lsi0, spec.name):
            try:
                await self.repair(graph_id)
            except (SwitchError, EngineError) as error:
                log.error("graph %s: %s", graph_id, error)
        return before is None

    async def detach(self, name: str, owner: str | None = None, force: bool = False) -> None:
        """Removes an attached port; rules of graphs on it go with it, but only if `force`.

        Raises:
            NotFound: there is none of this name, or it is node.yaml's.
            Busy: it is another owner's, or graphs use it.
            SwitchError: the switch does not remove it.
        """
        async with self.changing:
            attached = self._attached.get(name)
            if attached is None:
                raise NotFound("ports", f"no port {name!r} was attached to the node")
            if owner is not None and owner != attached.owner:
                raise Busy("ports", f"{name} is attached by {attached.owner!r}, not by {owner!r}")
            users = self.users(self._lsi0, self.specs[name].name)
            if users and not force:
                text = f"{name} is in use by {', '.join(users)}; delete them first, or use force"
                raise Busy("ports", text)
            await self._forget(name)

    async def _forget(self, name: str) -> None:
        self._store.write("DELETE FROM attached_port WHERE name=?", name)
        del self._attached[name], self.specs[name]
        await self.prepare(await self.plan(), True)


def _lacks_interface(spec: PortSpec) -> bool:
    """Whether a port is an interface that this machine does not have (any more).

    The kernel is asked, since /sys may be that of another network namespace.
    """
    if spec.kind is not PortKind.SYSTEM:
        return False
    try:
        if_nametoindex(spec.options.get("iface", spec.name))
    except OSError:
        return True
    return False
