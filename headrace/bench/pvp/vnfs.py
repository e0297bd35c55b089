# SPDX-License-Identifier: Apache-2.0
"""The VNFs: ours, and DPDK's testpmd as one forwards between virtio-user ports in io mode."""

import asyncio
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.bench.chains.vnf import Vnf
from headrace.bench.peers.systems import Missing, PeerError
from headrace.machine.processes import UNTIL_PARENT_ENDS
from headrace.protocols.control import call

TESTPMD = Path("/usr/bin/dpdk-testpmd")
MEMORY_MB = 96
START_S = 20.0
PROMPT = "testpmd> "

RINGS = {
    "split": "in_order=1,mrg_rxbuf=0,queue_size=1024",
    "packed": "packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1,queue_size=1024",
}
"""Options of net_virtio_user by the layout of its rings; the driver takes a vector path in both."""


@dataclass(frozen=True)
class Work:
    """What a forwarder has done so far: TSC cycles spent on packets, and their number."""

    cycles: int
    packets: int


class Forwarder(Protocol):
    """A VNF that takes packets at one port and sends them by another."""

    async def start(self) -> None:
        """Starts it; its ports wait for their peers."""

    async def ready(self) -> None:
        """Returns when it forwards."""

    async def work(self) -> Work:
        """Reads its counters."""

    def park(self) -> None:
        """Takes no more of its core."""

    def resume(self) -> None:
        """Runs on."""

    async def stop(self) -> None:
        """Ends it."""


class Pass:
    """headrace-vnf's `pass`."""

    def __init__(self, program: Path, vnf: Vnf, folder: Path) -> None:
        """`vnf` is not started yet, its control socket will be in `folder`."""
        self._program = program
        self._vnf = vnf
        self._control = folder / f"{vnf.name}.ctl"

    async def start(self) -> None:
        """Starts it."""
        await self._vnf.start(self._program, {})

    async def ready(self) -> None:
        """Waits for both ports' peers."""
        await self._vnf.ready()

    async def work(self) -> Work:
        """Of its worker."""
        told = await call(self._control, "cycles")
        return Work(int(told["busy_cycles"]), int(told["packets"]))

    def park(self) -> None:
        """Stops its process."""
        self._vnf.park()

    def resume(self) -> None:
        """Lets it go on."""
        self._vnf.resume()

    async def stop(self) -> None:
        """Ends it."""
        await self._vnf.stop()


def _check_installed() -> None:
    if not TESTPMD.exists():
        raise Missing("testpmd is not installed (Debian package dpdk)")


class Testpmd:
    """DPDK's testpmd in io mode on one core, by its prompt."""

    def __init__(
        self, folder: Path, name: str, vdevs: Sequence[str], *, cpu: int, main_cpu: int, begin: str
    ) -> None:
        """`begin` is the command that starts it: "start", or one that sends packets first."""
        self.name = name
        self._vdevs = vdevs
        self._cpu = cpu
        self._main_cpu = main_cpu
        self._begin = begin
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts the process; Missing if it is not installed."""
        _check_installed()
        vdevs = [word for vdev in self._vdevs for word in ("--vdev", vdev)]
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                # Its output is read while it runs.
                *("stdbuf", "-oL", *UNTIL_PARENT_ENDS, str(TESTPMD)),
                *("--lcores", f"0@{self._main_cpu},1@{self._cpu}", "--no-pci", "--in-memory"),
                *("--single-file-segments", "--file-prefix", f"pvp-{os.getpid()}-{self.name}"),
                # EAL's default of 256 bits keeps the driver from its vector path for packed rings.
                "--force-max-simd-bitwidth=512",
                *("-m", str(MEMORY_MB), *vdevs, "--"),
                *("-i", "--nb-cores=1", "--forward-mode=io", "--total-num-mbufs=16384"),
                *("--record-core-cycles", "--rxd=1024", "--txd=1024"),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    async def ready(self) -> None:
        """Waits for the prompt, and starts to forward."""
        await self._until(lambda text: PROMPT in text, "no prompt")
        self._type(self._begin)

    async def work(self) -> Work:
        """By `show fwd stats all`."""
        before = len(self._text())
        self._type("show fwd stats all")
        pattern = re.compile(r"total cycles=(\d+) / total \w+ packets=(\d+)")
        await self._until(lambda text: pattern.search(text[before:]) is not None, "no statistics")
        found = pattern.search(self._text()[before:])
        assert found is not None
        return Work(int(found[1]), int(found[2]))

    def _type(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def _text(self) -> str:
        return self._log.read_text(errors="replace")

    async def _until(self, holds: Callable[[str], bool], otherwise: str) -> None:
        assert self._process is not None
        deadline = asyncio.get_running_loop().time() + START_S
        while not holds(self._text()):
            late = asyncio.get_running_loop().time() > deadline
            if late or self._process.returncode is not None:
                raise PeerError(f"{self.name}: {otherwise}: {self._text()[-400:]}")
            await asyncio.sleep(0.02)

    def park(self) -> None:
        """Stops its process."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self) -> None:
        """Ends it."""
        if self._process is None or self._process.returncode is not None:
            return
        self.resume()
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
