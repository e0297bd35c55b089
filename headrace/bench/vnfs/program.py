# SPDX-License-Identifier: Apache-2.0
"""One headrace-vnf between the flow source and a sink, on the measured core."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bench.peers import frames
from headrace.bench.vnfs.cases import MAC, Case
from headrace.bench.vnfs.mixes import Mix, frames_of
from headrace.protocols.control import ControlError, call

START_S = 20.0
POLL_S = 0.02


class VnfError(Exception):
    """A VNF could not be started, or did not forward as expected; the text says which and why."""


@dataclass(frozen=True)
class Place:
    """The core, folder and programs of a VNF."""

    rundir: Path
    plugin: Path
    program: Path
    core: int
    memory_mb: int


@dataclass(frozen=True)
class Window:
    """The results of a VNF in one window."""

    packets: int
    cpu_s: float
    tsc_hz: float
    forwarded: int

    @property
    def mpps(self) -> float:
        """Millions of packets per second of the core's time."""
        return self.packets / self.cpu_s / 1e6

    @property
    def cycles(self) -> float:
        """TSC cycles for each packet, source and sink included."""
        return self.cpu_s * self.tsc_hz / self.packets


@dataclass(frozen=True)
class _Reading:
    """A VNF's counters at one moment."""

    received: int
    sent: int
    cpu_s: float
    tsc_hz: float


class Vnf:
    """A running headrace-vnf; use start() and stop()."""

    def __init__(self, case: Case, place: Place) -> None:
        """Nothing is started."""
        self._case = case
        self._place = place
        self._directory = place.rundir / case.name
        self._ctl = self._directory / "vnf.ctl"
        self._process: asyncio.subprocess.Process | None = None
        self.pages = ""

    def _device(self, port: str) -> str:
        return f"net_null_{port}"

    def _configuration(self) -> dict[str, Any]:
        generates = self._case.frames is None
        return {
            "eal": {
                "file_prefix": f"vnfs-{os.getpid()}",
                "memory_mb": self._place.memory_mb,
                "plugins": [str(self._place.plugin)],
            },
            "cpu": self._place.core,
            "idle": "poll",
            "ports": [
                {
                    "name": port,
                    "devargs": self._device(port) + (",no-rx=1" if generates else ",size=60"),
                    "mac": MAC[port],
                }
                for port in ("a", "b")
            ],
            "function": self._case.configuration,
        }

    async def start(self) -> None:
        """Starts the program with closed sources and warms the function up."""
        self._directory.mkdir(exist_ok=True)
        config = self._directory / "vnf.json"
        config.write_text(json.dumps(self._configuration()))
        for port in ("a", "b"):
            frames.close(self._frames(port))
        with (self._directory / "vnf.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                str(self._place.program),
                self._case.function,
                *("--config", str(config), "--ctl", str(self._ctl)),
                stdout=log,
                stderr=log,
                env=dict(os.environ, HEADRACE_FLOW_DIR=str(self._directory)),
            )
        deadline = asyncio.get_running_loop().time() + START_S
        while not await self._ready():
            if self._process.returncode is not None:
                raise VnfError(f"{self._case.name}: ended while starting: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise VnfError(f"{self._case.name}: not ready: {self._last_words()}")
            await asyncio.sleep(POLL_S)
        self.pages = (await call(self._ctl, "ping"))["eal"]["pages"]
        if self._case.frames is not None:
            await self._wait_for_silence()
        if self._case.warm_up is not None:
            port, make = self._case.warm_up
            await self._serve(port, Mix("64B", (64,)), make(60))

    async def _ready(self) -> bool:
        try:
            await call(self._ctl, "cycles", timeout_s=2.0)
        except ControlError:
            return False
        return True

    def _frames(self, port: str) -> Path:
        return self._directory / f"{self._device(port)}.frames"

    async def _serve(self, port: str, mix: Mix, made: frames.Bytes) -> None:
        """Sends frames once or more, then closes the source again."""
        frames.write(self._frames(port), made)
        await self._wait_for_packets(port, len(made))
        frames.close(self._frames(port))
        await asyncio.sleep(3 * POLL_S)

    async def _wait_for_packets(self, port: str, count: int) -> None:
        before = (await self._ports())[port]["rx_packets"]
        deadline = asyncio.get_running_loop().time() + START_S
        while (await self._ports())[port]["rx_packets"] < before + count:
            if asyncio.get_running_loop().time() > deadline:
                raise VnfError(
                    f"{self._case.name}: its source does not serve: {self._last_words()}"
                )
            await asyncio.sleep(POLL_S)

    async def _wait_for_silence(self) -> None:
        """Waits until the sources are closed: a net_null without the plugin generates zeroes."""
        deadline = asyncio.get_running_loop().time() + START_S
        last = await self._reading()
        while True:
            await asyncio.sleep(3 * POLL_S)
            now = await self._reading()
            if now.received == last.received:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise VnfError(f"{self._case.name}: no flow source: {self._last_words()}")
            last = now

    async def _ports(self) -> dict[str, Any]:
        ports: dict[str, Any] = (await call(self._ctl, "counters"))["ports"]
        return ports

    async def measure(self, mix: Mix, seconds: float) -> Window:
        """One window at one mix of sizes.

        Raises:
            VnfError: the VNF did not forward the expected share.
        """
        if self._case.frames is not None:
            frames.write(self._frames(self._case.entry), *frames_of(mix, self._case.frames))
            await self._wait_for_packets(self._case.entry, 10_000)
        first = await self._reading()
        await asyncio.sleep(seconds)
        last = await self._reading()
        if self._case.frames is not None:
            frames.close(self._frames(self._case.entry))
        forwarded = last.sent - first.sent
        window = Window(
            packets=last.received - first.received if self._case.frames else forwarded,
            cpu_s=last.cpu_s - first.cpu_s,
            tsc_hz=last.tsc_hz,
            forwarded=forwarded,
        )
        await self._check(window)
        return window

    async def _check(self, window: Window) -> None:
        """Checks that input and output between two readings differ by a few bursts at most."""
        if window.packets == 0:
            raise VnfError(f"{self._case.name}: no packets in the window: {self._last_words()}")
        expected = self._case.transmits
        if expected is None:
            return
        if window.forwarded < 0.99 * expected * window.packets:
            drops = (await call(self._ctl, "counters"))["drops"]
            raise VnfError(
                f"{self._case.name}: {window.forwarded} of {window.packets} packets went out; "
                f"dropped: {drops}"
            )

    async def _reading(self) -> _Reading:
        # Count packets by the ports: a function's own counter may count a packet on input and on
        # output.
        ports = (await self._ports()).values()
        cycles = await call(self._ctl, "cycles")
        return _Reading(
            received=sum(port["rx_packets"] for port in ports),
            sent=sum(port["tx_packets"] for port in ports),
            cpu_s=cycles["cpu_ns"] / 1e9,
            tsc_hz=cycles["tsc_hz"],
        )

    def _last_words(self) -> str:
        return (self._directory / "vnf.log").read_text(errors="replace")[-400:]

    async def stop(self) -> None:
        """Ends the program."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
