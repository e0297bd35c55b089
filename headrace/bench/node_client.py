# SPDX-License-Identifier: Apache-2.0
"""A client of a node's REST API. Does not import the node."""

import asyncio
import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import BaseModel, ConfigDict

from headrace.bench.errors import DeviceError
from headrace.machine.patience import patient

REQUEST_S = 60.0
DEPLOY_S = 60.0
KEPT_S = 2.0
"""Connections that were idle for longer are not used again. The node closes them after 5 s: one
that is taken up at that time ends without an answer. Of the connections that the counters of
several VNFs are read by at once all but one are idle meanwhile."""
REPEATABLE = ("GET", "PUT")
"""Requests that may be sent again where a connection ended without an answer (RFC 9110, 9.2.2)."""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Attach(_Reply):
    """How a peer attaches to a port: by vdev arguments of a DPDK program, or a kernel interface."""

    devargs: str | None = None
    iface: str | None = None


class NodePort(_Reply):
    """A physical port of the node."""

    name: str
    kind: str
    attach: Attach


class Worker(_Reply):
    """Cycles of one worker since it started; what it does not count is None."""

    core: int = -1
    busy_cycles: int
    idle_cycles: int
    packets: int = 0
    rounds: int | None = None
    busy_rounds: int | None = None
    bursts: int | None = None
    full_bursts: int | None = None


class Cycles(_Reply):
    """Cycles of all workers of a switch since they started.

    `resolution_cycles`: how far the difference of two readings may be off, where they are derived.
    """

    tsc_hz: float
    approximate: bool = False
    resolution_cycles: float | None = None
    source: str = ""
    workers: list[Worker]

    @property
    def busy(self) -> int:
        """Busy cycles of all workers."""
        return sum(worker.busy_cycles for worker in self.workers)

    @property
    def packets(self) -> int:
        """Packets that all workers received."""
        return sum(worker.packets for worker in self.workers)


class VnfCycles(_Reply):
    """Cycles of one VNF since it started; what its engine does not count is None.

    `polls` are rounds over its ports; `refused` are packets that a port did not take; `cpu_ns` is
    the time on its core.
    """

    busy_cycles: int
    idle_cycles: int | None = None
    yielded_cycles: int = 0
    packets: int | None = None
    polls: int | None = None
    busy_polls: int | None = None
    bursts: int | None = None
    full_bursts: int | None = None
    refused: int | None = None
    cpu_ns: int = 0


class PortCounters(_Reply):
    """Counters of one port of the switch since it was made."""

    lsi: str
    port: str
    rx_packets: int
    tx_packets: int
    tx_dropped: int


class NodeClient:
    """One node's REST API.

    Args:
        base_url: such as `http://127.0.0.1:8080`.
        transport: of httpx; tests replace it.
    """

    def __init__(self, base_url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.base_url = base_url
        self._http = httpx.AsyncClient(
            base_url=base_url,
            timeout=patient(REQUEST_S),
            limits=httpx.Limits(keepalive_expiry=KEPT_S),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _call(self, method: str, path: str, body: object = None) -> Any:
        try:
            try:
                answer = await self._http.request(method, path, json=body)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if method not in REPEATABLE:
                    raise
                answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise DeviceError(f"node: {method} {path}: {error or type(error).__name__}") from error
        if answer.status_code >= 400:
            raise DeviceError(f"node: {method} {path}: {answer.status_code} {_reason(answer)}")
        return answer.json() if answer.content else None

    async def info(self) -> dict[str, Any]:
        """The node's capabilities and versions."""
        answer: dict[str, Any] = await self._call("GET", "/node")
        return answer

    async def wait_up(self, timeout_s: float) -> dict[str, Any]:
        """Waits until the node answers; returns its information.

        Raises:
            DeviceError: no answer within `timeout_s`.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            try:
                return await self.info()
            except DeviceError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)

    async def ports(self) -> list[NodePort]:
        """The node's physical ports."""
        answer = await self._call("GET", "/node/ports")
        rows = answer["ports"] if isinstance(answer, dict) else answer
        return [NodePort.model_validate(row) for row in rows]

    async def deploy(self, name: str, graph: dict[str, Any], timeout_s: float = DEPLOY_S) -> None:
        """Creates graph `name` and waits until it is complete.

        $HEADRACE_PATIENCE multiplies `timeout_s` (machine/patience.py).

        Raises:
            DeviceError: the node refused it or it did not come up.
        """
        await self._call("PUT", f"/NF-FG/{name}", graph)
        timeout_s = patient(timeout_s)
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            status = await self._call("GET", f"/NF-FG/status/{name}")
            if status.get("status") == "complete":
                return
            if status.get("status") in {"error", "failed"}:
                raise DeviceError(f"node: graph {name}: {json.dumps(status)}")
            if asyncio.get_running_loop().time() > deadline:
                raise DeviceError(f"node: graph {name} is not complete after {timeout_s:.0f} s")
            await asyncio.sleep(0.05)

    async def delete(self, name: str) -> None:
        """Deletes graph `name`."""
        await self._call("DELETE", f"/NF-FG/{name}")

    async def prediction(self, name: str) -> dict[str, Any]:
        """What the node's model predicted of a graph (GET /NF-FG/{id}/prediction)."""
        told: dict[str, Any] = await self._call("GET", f"/NF-FG/{name}/prediction?seconds=0")
        return told

    async def switch_cycles(self) -> Cycles:
        """Cycles of the switch's workers so far."""
        return Cycles.model_validate(await self._call("GET", "/node/switch/cycles"))

    async def port_counters(self) -> list[PortCounters]:
        """Counters of all ports of all LSIs."""
        rows = await self._call("GET", "/node/switch/ports")
        return [PortCounters.model_validate(row) for row in rows]

    async def vnf_cycles(self, graph: str, vnf: str) -> VnfCycles:
        """Cycles of one VNF so far."""
        return VnfCycles.model_validate(await self._call("GET", f"/node/vnfs/{graph}/{vnf}/cycles"))

    async def wait_forwarding(self, graph: str, vnfs: Sequence[str], timeout_s: float) -> None:
        """Waits until polling VNFs have opened their ports and count cycles.

        A virtio-user server port opens only once the switch has connected, which it attempts about
        once a second, so a graph can be complete earlier.

        Raises:
            DeviceError: the last refusal, if one is not ready within `timeout_s`.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        for vnf in vnfs:
            while True:
                try:
                    await self.vnf_cycles(graph, vnf)
                    break
                except DeviceError:
                    if asyncio.get_running_loop().time() > deadline:
                        raise
                    await asyncio.sleep(0.05)

    async def pause(self, paused: bool) -> None:
        """Stops or continues the switch's and the VNFs' processes."""
        await self._call("PUT", "/node/paused", {"paused": paused})


def _reason(answer: httpx.Response) -> str:
    try:
        content = answer.json()
    except ValueError:
        return answer.text.strip()[:300]
    if isinstance(content, dict):
        for key in ("message", "detail"):
            if key in content:
                return str(content[key])[:600]
    return json.dumps(content)[:300]
