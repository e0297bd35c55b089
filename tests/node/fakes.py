# SPDX-License-Identifier: Apache-2.0
"""A switch and an engine that live in a JSON file, so that they outlive a killed node.

They refuse what a real switch would: a port on an LSI that is not there, a rule on a port that is
not there, an LSI that still has patch ports to another. `before` is called ahead of every change
and `after` behind it, with its name and number; tests kill or fail there.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from headrace.engines.base import Observed, VnfSpec
from headrace.engines.execution import Executed, NotRunning
from headrace.machine.processes import write_atomically
from headrace.switches.base import (
    Attach,
    Capabilities,
    LinkSpec,
    PortKind,
    PortSpec,
    PortStatistics,
    QueueSpec,
    RuleStatistics,
    SwitchCycles,
    SwitchError,
    WorkerCycles,
)
from headrace.switches.headrace_switch import HeadraceDriver
from headrace.switches.rules import CONTROLLER, LOCAL, Rule

Hook = Callable[[str, int], None]


def _nothing(what: str, number: int) -> None:
    pass


class World:
    """What exists outside the node."""

    def __init__(self, file: Path, before: Hook = _nothing, after: Hook = _nothing) -> None:
        self._file = file
        self._before, self._after = before, after
        self.changes: list[str] = []

    def read(self) -> dict[str, Any]:
        """LSIs, ports, rules, VNFs."""
        try:
            held: dict[str, Any] = json.loads(self._file.read_text())
        except FileNotFoundError:
            return {"lsis": [], "ports": {}, "rules": {}, "vnfs": {}}
        return held

    def change(self, what: str, work: Callable[[dict[str, Any]], None]) -> None:
        """Applies `work` to the world."""
        number = len(self.changes)
        self.changes.append(what)
        self._before(what, number)
        held = self.read()
        work(held)
        write_atomically(self._file, json.dumps(held, sort_keys=True))
        self._after(what, number)


class FakeDriver:
    """A switch that only remembers."""

    name = "fake"
    capabilities = Capabilities(
        port_kinds=(PortKind.MEMIF, PortKind.VHOST_USER),
        vnf_kinds=(PortKind.MEMIF,),
        end_points=HeadraceDriver.capabilities.end_points,
    )

    def __init__(self, world: World, adopts: bool = True) -> None:
        self.world = world
        self._adopts = adopts

    async def start(self) -> bool:
        return self._adopts and bool(self.world.read()["lsis"])

    async def stop(self) -> None:
        pass

    async def create_lsi(self, lsi: str) -> None:
        def work(held: dict[str, Any]) -> None:
            if lsi not in held["lsis"]:
                held["lsis"].append(lsi)

        self.world.change(f"create {lsi}", work)

    async def delete_lsi(self, lsi: str) -> None:
        def work(held: dict[str, Any]) -> None:
            held["lsis"] = [name for name in held["lsis"] if name != lsi]
            held["ports"] = {name: port for name, port in held["ports"].items() if port != lsi}
            held["rules"] = {key: r for key, r in held["rules"].items() if r["lsi"] != lsi}

        self.world.change(f"delete {lsi}", work)

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        def work(held: dict[str, Any]) -> None:
            if lsi not in held["lsis"]:
                raise SwitchError(f"no LSI {lsi}")
            held["ports"][port.name] = lsi

        self.world.change(f"add {port.name}", work)

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        def work(held: dict[str, Any]) -> None:
            held["ports"].pop(port.name, None)

        self.world.change(f"remove {port.name}", work)

    async def connect_lsis(self, link: LinkSpec) -> None:
        def work(held: dict[str, Any]) -> None:
            for lsi, port in ((link.first, link.first_port), (link.second, link.second_port)):
                if lsi not in held["lsis"]:
                    raise SwitchError(f"no LSI {lsi}")
                held["ports"][port] = lsi

        self.world.change(f"connect {link.first_port}", work)

    async def disconnect_lsis(self, link: LinkSpec) -> None:
        def work(held: dict[str, Any]) -> None:
            held["ports"].pop(link.first_port, None)
            held["ports"].pop(link.second_port, None)

        self.world.change(f"disconnect {link.first_port}", work)

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        def work(held: dict[str, Any]) -> None:
            for rule in rules:
                for port in (rule.in_port, *rule.outputs):
                    if port not in (LOCAL, CONTROLLER) and held["ports"].get(port) != lsi:
                        raise SwitchError(f"{rule.label}: no port {port} on {lsi}")
                held["rules"][rule.identity] = rule.model_dump(mode="json")

        self.world.change(f"install {lsi} {','.join(r.label for r in rules)}", work)

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        def work(held: dict[str, Any]) -> None:
            for rule in rules:
                held["rules"].pop(rule.identity, None)

        self.world.change(f"uninstall {lsi} {','.join(r.label for r in rules)}", work)

    async def replace_flows(self, lsi: str, flows: Sequence[str]) -> None:
        self.world.change(f"flows of {lsi}", lambda held: None)

    async def set_controller(self, lsi: str, address: str | None) -> None:
        def work(held: dict[str, Any]) -> None:
            held.setdefault("controllers", {})[lsi] = address

        self.world.change(f"controller of {lsi} is {address}", work)

    async def add_queue(self, lsi: str, queue: QueueSpec) -> None:
        self.world.change(f"queue {queue.number} of {queue.port}", lambda held: None)

    async def remove_queue(self, lsi: str, queue: QueueSpec) -> None:
        self.world.change(f"no queue {queue.number} of {queue.port}", lambda held: None)

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        zero = dict.fromkeys(
            ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped"), 0
        )
        return [
            PortStatistics(lsi=owner, port=name, ofport=number, **zero)
            for number, (name, owner) in enumerate(self.world.read()["ports"].items(), 1)
            if lsi in (None, owner)
        ]

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        return []

    async def cycles(self) -> SwitchCycles:
        return SwitchCycles(
            switch=self.name,
            approximate=False,
            source="fake",
            tsc_hz=1e9,
            at_ns=time.monotonic_ns(),
            workers=(WorkerCycles(core=1, busy_cycles=1, idle_cycles=2, packets=3),),
        )

    async def version(self) -> str:
        return "fake 1"

    def attach(self, port: PortSpec) -> Attach:
        return Attach(devargs=f"net_fake{{n}},port={port.name}")

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        self.world.change(f"wait for {','.join(port.name for port in ports)}", lambda held: None)

    async def missing(self, ports: Collection[str]) -> set[str]:
        return set(ports) - set(self.world.read()["ports"])

    async def links(self) -> dict[str, bool]:
        held = self.world.read()
        return {name: name not in held.get("down", []) for name in held["ports"]}

    def processes(self) -> tuple[str, ...]:
        return ()

    def watched(self) -> tuple[str, ...]:
        return ()


class FakeEngine:
    """VNFs that are entries of the world."""

    name = "process"
    port_kinds: tuple[PortKind, ...] = (PortKind.MEMIF,)

    def __init__(self, world: World) -> None:
        self.world = world

    async def check(self, vnf: VnfSpec) -> None:
        pass

    async def ensure(self, vnf: VnfSpec) -> None:
        def work(held: dict[str, Any]) -> None:
            held["vnfs"][vnf.name] = vnf.model_dump(mode="json")

        self.world.change(f"start {vnf.vnf}", work)

    async def stop(self, vnf: VnfSpec) -> None:
        def work(held: dict[str, Any]) -> None:
            held["vnfs"].pop(vnf.name, None)

        self.world.change(f"stop {vnf.vnf}", work)

    def running(self, vnf: VnfSpec) -> bool:
        held: dict[str, Any] = self.world.read()["vnfs"]
        return held.get(vnf.name) == vnf.model_dump(mode="json")

    def observed(self, vnf: VnfSpec) -> Observed | None:
        held = self.world.read()["vnfs"].get(vnf.name)
        if held is None:
            return None
        return Observed(engine=held["engine"], cores=tuple(held["cores"]))

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        return {"ports": {}}

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        return {"busy_cycles": 1, "idle_cycles": 2, "packets": 3}

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        return (f"vnf-{vnf.vnf}",)

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        if not self.running(vnf):
            raise NotRunning(f"VNF {vnf.vnf}: it does not run")
        return Executed(3, f"{vnf.vnf} {' '.join(command)}".encode(), stdin, truncated=False)
