# SPDX-License-Identifier: Apache-2.0
"""A node of its own, driven as an operator drives one: by commands, REST and signals."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from headrace.bench.core_plan import plan_cores
from headrace.bench.errors import DeviceError
from headrace.bench.node_process import free_port, run_folder
from headrace.bench.owned import end_owned

REQUEST_S = 120.0
COMMAND_S = 120.0
CONNECTIONS = 256


class Bed:
    """The node of one run; its ports p0 and p1 are interfaces, whose far ends are the generator's.

    So the generator needs not notice when the switch is another one.
    `idle` is node.yaml's: with `yield` VNFs have the same share of a core as the generator beside
    them, where they would else be last.
    """

    def __init__(self, memory_mb: int = 9000, sleep_us: int = 1000, idle: str = "auto") -> None:
        self.rundir = run_folder()
        self.rest_port = free_port()
        mark = self.rundir.name[-6:]
        self.pairs = {name: (f"lc{mark}{name}", f"lc{mark}{name}x") for name in ("p0", "p1")}
        cores = plan_cores()
        self.config: dict[str, Any] = {
            "name": "lifecycle",
            "rest": {
                "host": "127.0.0.1",
                "port": self.rest_port,
                # A burst of requests and the commands beside it come from one address.
                "connections_per_peer": CONNECTIONS,
                "connections": 2 * CONNECTIONS,
            },
            "cores": {"control": cores.control, "switch": cores.switch, "vnf": cores.vnf},
            "memory_mb": memory_mb,
            "switch_memory_mb": 256,
            "oversubscribe": True,
            "sleep_us": sleep_us,
            "idle": idle,
            "ports": [
                {"name": name, "kind": "system", "options": {"iface": near}}
                for name, (near, _) in self.pairs.items()
            ],
        }
        self._http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.rest_port}", timeout=REQUEST_S
        )

    # The node.

    async def _command(self, *words: str) -> None:
        headrace = str(Path(sys.executable).with_name("headrace"))
        child = await asyncio.create_subprocess_exec(
            headrace, *words, "--rundir", str(self.rundir),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(child.communicate(), COMMAND_S)
        if child.returncode:
            raise DeviceError(f"headrace {words[0]}: {said.decode(errors='replace')[-600:]}")

    async def up(self) -> float:
        """`headrace up`; the seconds until it has returned, the API answering.

        Raises:
            DeviceError: it does not start.
        """
        await self._make_pairs()
        file = self.rundir.with_name(f"{self.rundir.name}.yaml")
        file.write_text(yaml.safe_dump(self.config))
        begin = time.monotonic()
        try:
            await self._command("up", "--config", str(file), "--statedir", str(self.rundir))
        finally:
            file.unlink()
        return time.monotonic() - begin

    async def kill_node(self) -> None:
        """Ends the node's own process as a crash would; switch and VNFs run on."""
        self.kill("node")
        # The kernel closes its sockets at once; the lock of its directory goes with them.
        await asyncio.sleep(0.05)

    async def down(self) -> None:
        """`headrace down`, and away with its folder."""
        try:
            await self._command("down")
        finally:
            for near, _ in self.pairs.values():
                await _ip("link", "del", near)
            await self._http.aclose()
            await end_owned(self.rundir)
            shutil.rmtree(self.rundir, ignore_errors=True)

    def pid(self, name: str) -> int:
        """The pid of the node (`node`) or of one of its processes, such as `switch`."""
        file = self.rundir / ("node.json" if name == "node" else f"pids/{name}.json")
        return int(json.loads(file.read_text())["pid"])

    def vnf_processes(self) -> list[str]:
        """The names of the VNFs' processes."""
        return sorted(file.stem for file in (self.rundir / "pids").glob("vnf-*.json"))

    def kill(self, name: str) -> None:
        """SIGKILL."""
        os.kill(self.pid(name), signal.SIGKILL)

    def memory_kib(self, name: str) -> int:
        """Resident memory of a process."""
        return int(psutil.Process(self.pid(name)).memory_info().rss) >> 10

    # Requests.

    async def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        """One request, answered without an error.

        Raises:
            DeviceError: it was refused, or not answered.
        """
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            text = str(error) or type(error).__name__
            raise DeviceError(f"node: {method} {path}: {text}") from error
        if answer.status_code >= 400:
            text = answer.text.strip()[:600]
            raise DeviceError(f"node: {method} {path}: {answer.status_code} {text}")
        return answer

    async def timed(self, method: str, path: str, body: object = None) -> float:
        """How long one request took, in ms."""
        begin = time.perf_counter()
        await self.request(method, path, body)
        return 1e3 * (time.perf_counter() - begin)

    async def status(self, graph: str) -> dict[str, Any]:
        """What the node says of a graph."""
        found: dict[str, Any] = (await self.request("GET", f"/NF-FG/status/{graph}")).json()
        return found

    async def until_complete(self, graph: str, patience_s: float = 60.0) -> None:
        """Waits until a graph is as it should be, as after its switch was killed.

        Raises:
            DeviceError: it is not after `patience_s`.
        """
        deadline = time.monotonic() + patience_s
        while (said := await self.status(graph))["status"] != "complete":
            if time.monotonic() > deadline:
                raise DeviceError(f"graph {graph}: {said['status']}: {said['message']}")
            await asyncio.sleep(0.05)

    async def until_recovered(self, patience_s: float = 120.0) -> None:
        """Waits until no graph is left to be recovered.

        Raises:
            DeviceError: some are after `patience_s`.
        """
        deadline = time.monotonic() + patience_s
        while (left := (await self.request("GET", "/node")).json()["recovering"]) > 0:
            if time.monotonic() > deadline:
                raise DeviceError(f"node: {left} graphs are not recovered in {patience_s:.0f} s")
            await asyncio.sleep(0.01)

    def devargs(self) -> dict[str, str]:
        """How a DPDK program attaches to the far end of each port."""
        ends = enumerate(self.pairs.items())
        return {name: f"net_af_packet{n},iface={far}" for n, (name, (_, far)) in ends}

    def on_the_wires(self) -> tuple[int, int]:
        """Frames that the kernel has carried into p0, and out of p1, so far.

        What arrives at a far end and not at the generator was lost there, not by the node: a
        generator that is kept from its core for longer than its ring lasts loses what comes.
        """
        counters = Path("/sys/class/net")
        into, out = self.pairs["p0"][1], self.pairs["p1"][1]
        sent = counters / into / "statistics/tx_packets"
        came = counters / out / "statistics/rx_packets"
        return int(sent.read_text()), int(came.read_text())

    async def _make_pairs(self) -> None:
        for near, far in self.pairs.values():
            if not (Path("/sys/class/net") / near).exists():
                await _ip("link", "add", near, "type", "veth", "peer", "name", far)
            for end in (near, far):
                settings = Path("/proc/sys/net/ipv6/conf") / end / "disable_ipv6"
                settings.write_text("1")  # the kernel itself sends nothing
                await _ip("link", "set", end, "up")


async def _ip(*words: str) -> None:
    child = await asyncio.create_subprocess_exec(
        "ip", *words, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await child.communicate()
    if child.returncode:
        raise DeviceError(f"ip {' '.join(words)}: {said.decode(errors='replace').strip()}")
