# SPDX-License-Identifier: Apache-2.0
"""Nodes in a row on this machine, each with its own switch: D5.6's chains of nodes (Fig. 31 to 35).

    generator a -> in0 [node 0] out0 -> in0 [node 1] out0 -> ... out0 -> generator b

Neighbors are joined by memif (a server at the one, a client at the next) or by a veth pair. The
bench has them as one: what it deploys goes to each, and their cycles are added up. All use the
cores of the plan, so on a small machine their workers share one.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.bench.core_plan import CorePlan
from headrace.bench.errors import DeviceError
from headrace.bench.node_client import DEPLOY_S, Cycles, NodeClient, NodePort, PortCounters
from headrace.bench.node_process import PORTS, NodeProcess
from headrace.bench.subject import Subject

_numbers = itertools.count()
FAR_APART = 1000
"""Added to the cores of each further node's workers, so that readings tell them apart."""


class RowClient(NodeClient):
    """The REST APIs of nodes in a row as one: the first has `in0`, the last `out0`."""

    def __init__(self, clients: Sequence[NodeClient]) -> None:
        super().__init__(clients[0].base_url)
        self._clients = list(clients)

    async def close(self) -> None:
        """Closes the connections of all."""
        await super().close()
        await asyncio.gather(*(one.close() for one in self._clients))

    async def ports(self) -> list[NodePort]:
        """The two free ports: the first node's entry and the last one's exit."""
        first, last = await self._clients[0].ports(), await self._clients[-1].ports()
        entry = [port for port in first if port.name == PORTS[0]]
        return entry + [port for port in last if port.name == PORTS[1]]

    async def deploy(self, name: str, graph: dict[str, Any], timeout_s: float = DEPLOY_S) -> None:
        """Deploys the same graph on each."""
        for one in self._clients:
            await one.deploy(name, graph, timeout_s)

    async def delete(self, name: str) -> None:
        """Deletes it on each."""
        for one in self._clients:
            await one.delete(name)

    async def switch_cycles(self) -> Cycles:
        """The workers of all; a further node's core is told apart by a number that is no core's."""
        found = await asyncio.gather(*(one.switch_cycles() for one in self._clients))
        workers = [
            worker.model_copy(update={"core": worker.core + FAR_APART * at})
            for at, cycles in enumerate(found)
            for worker in cycles.workers
        ]
        return found[0].model_copy(update={"workers": workers})

    async def port_counters(self) -> list[PortCounters]:
        """The ports of all; those between nodes are no ports of the generator."""
        found = await asyncio.gather(*(one.port_counters() for one in self._clients))
        last = len(found) - 1
        return [
            port.model_copy(update={"lsi": f"{at}:{port.lsi}", "port": _named(port, at, last)})
            for at, ports in enumerate(found)
            for port in ports
        ]

    async def pause(self, paused: bool) -> None:
        """Stops or continues all."""
        for one in self._clients:
            await one.pause(paused)


def _named(port: PortCounters, at: int, last: int) -> str:
    outer = {PORTS[0]: at == 0, PORTS[1]: at == last}
    return port.port if outer.get(port.port, True) else f"{at}:{port.port}"


class NodeRow(NodeProcess):
    """As many nodes as the subject has; this is the first, the others stand behind it."""

    def __init__(self, subject: Subject, plan: CorePlan, most_vnfs: int = 0) -> None:
        super().__init__(subject, plan, most_vnfs=most_vnfs)
        self._plan = plan
        mark = f"hrj{os.getpid() % 100000}{next(_numbers) % 100:02d}"
        self._pairs = [(f"{mark}{at}a", f"{mark}{at}b") for at in range(subject.nodes - 1)]
        # The names of kernel interfaces have at most 15 characters.
        assert all(len(name) < 16 for pair in self._pairs for name in pair)
        nodes: list[NodeProcess] = [self]
        nodes += [NodeProcess(subject, plan) for _ in range(subject.nodes - 1)]
        for at, node in enumerate(nodes):
            node.set_ports(self._ports(at))
        self._behind = nodes[1:]
        self._own = self.client
        self.client = RowClient([node.client for node in nodes])

    @property
    def rundirs(self) -> list[Path]:
        """The folders of all."""
        return [self.rundir, *(node.rundir for node in self._behind)]

    def _ports(self, at: int) -> list[dict[str, Any]]:
        """The two ports of node number `at`."""
        kind = self.subject.ports
        free: list[dict[str, Any]] = [{"name": name, "kind": kind} for name in PORTS]
        if at > 0:
            free[0] = {"name": PORTS[0], **self._join(at - 1, 1)}
        if at < self.subject.nodes - 1:
            free[1] = {"name": PORTS[1], **self._join(at, 0)}
        return free

    def _join(self, link: int, end: int) -> dict[str, Any]:
        if self.subject.joined == "veth":
            return {"kind": "system", "options": {"iface": self._pairs[link][end]}}
        # In the first node's folder, which is there before any node is started.
        socket = str(self.rundir / f"join{link}.sock")
        role = ("server", "client")[end]
        return {"kind": "memif", "options": {"socket": socket, "id": "0", "role": role}}

    async def up(self) -> dict[str, Any]:
        """Joins and starts all; returns the first one's information.

        Raises:
            DeviceError: one did not start, or a pair could not be made.
        """
        if self.subject.joined == "veth":
            for near, far in self._pairs:
                await _ip("link", "add", near, "type", "veth", "peer", "name", far)
                for name in (near, far):
                    await _ip("link", "set", "dev", name, "addrgenmode", "none", "up")
        row, self.client = self.client, self._own
        try:
            information = await super().up()
        finally:
            self.client = row
        for node in self._behind:
            await node.up()
        return information

    async def down(self) -> None:
        """Stops all and removes the pairs."""
        for node in self._behind:
            await node.down()
        row, self.client = self.client, self._own
        await super().down()
        await NodeClient.close(row)
        if self.subject.joined == "veth":
            for near, _ in self._pairs:
                with contextlib.suppress(DeviceError):
                    await _ip("link", "delete", near)


async def _ip(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "ip", *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, told = await process.communicate()
    if process.returncode != 0:
        raise DeviceError(f"ip {' '.join(words)}: {told.decode(errors='replace').strip()}")
