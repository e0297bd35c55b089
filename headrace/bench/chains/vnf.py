# SPDX-License-Identifier: Apache-2.0
"""The processes at and in a chain: source, pass VNFs and sink, as headrace-vnf runs them."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from headrace.protocols.control import ControlError, call

START_S = 30.0
POLL_S = 0.05


class ChainError(Exception):
    """A chain could not be made or measured; the text says what failed."""


def vhost_port(name: str, socket: Path) -> dict[str, Any]:
    """A virtio-user port, the server of a switch's vhost-user client: packed ring, vectorised."""
    options = "server=1,packed_vq=1,in_order=1,mrg_rxbuf=0,vectorized=1,queue_size=1024"
    return {"name": name, "devargs": f"net_virtio_user_{name},path={socket},{options}"}


def memif_port(name: str, socket: Path) -> dict[str, Any]:
    """A memif client of a switch's server."""
    where = f"role=client,socket={socket},socket-abstract=no,id=0"
    return {"name": name, "devargs": f"net_memif_{name},{where}"}


def shm_port(name: str, group: Path, port: str) -> dict[str, Any]:
    """A shared-memory port of a Headrace switch."""
    return {"name": name, "shm": {"socket": str(group), "port": port}}


class Vnf:
    """One headrace-vnf."""

    def __init__(
        self,
        folder: Path,
        name: str,
        function: str,
        ports: list[dict[str, Any]],
        *,
        cpu: int,
        memory_mb: int,
        idle: str = "yield",
    ) -> None:
        """Nothing is started. Without a port of DPDK no huge pages are taken."""
        self.name = name
        self._function = function
        self._file = folder / f"{name}.json"
        self._log = folder / f"{name}.log"
        self._ctl = folder / f"{name}.ctl"
        self._process: asyncio.subprocess.Process | None = None
        by_dpdk = any("devargs" in port for port in ports)
        self._configuration: dict[str, Any] = {
            "eal": {"memory_mb": memory_mb, "hugepages": "auto" if by_dpdk else "off"},
            "cpu": cpu,
            "idle": idle,
            "ports": ports,
            "function": {},
        }

    async def start(self, program: Path, function: dict[str, Any]) -> None:
        """Starts it; ready() waits for its peers."""
        self._configuration["function"] = function
        self._file.write_text(json.dumps(self._configuration))
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                # Killed when this process ends for any reason.
                *("setpriv", "--pdeathsig", "KILL", str(program), self._function),
                *("--config", str(self._file), "--ctl", str(self._ctl)),
                stdout=log,
                stderr=log,
            )

    async def ready(self) -> None:
        """Waits until all ports have a peer."""
        deadline = asyncio.get_running_loop().time() + START_S
        missing = "no answer"
        while True:
            try:
                ports = (await call(self._ctl, "counters", timeout_s=5.0))["ports"]
                missing = ", ".join(n for n, port in ports.items() if not port["link"])
                if not missing:
                    return
            except ControlError as error:
                missing = str(error)
            assert self._process is not None
            if self._process.returncode is not None:
                raise ChainError(f"VNF {self.name} ended while starting: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise ChainError(f"VNF {self.name}: no peer ({missing}): {self._last_words()}")
            await asyncio.sleep(POLL_S)

    async def reconfigure(self, function: dict[str, Any]) -> None:
        """Reloads the running function with another configuration."""
        self._configuration["function"] = function
        self._file.write_text(json.dumps(self._configuration))
        await call(self._ctl, "reload")

    async def packets(self) -> tuple[int, int]:
        """Packets received and sent on all ports so far."""
        ports = (await call(self._ctl, "counters"))["ports"].values()
        return sum(p["rx_packets"] for p in ports), sum(p["tx_packets"] for p in ports)

    def park(self) -> None:
        """Stops it (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues it (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-400:]

    async def stop(self) -> None:
        """Terminates it."""
        if self._process is None or self._process.returncode is not None:
            return
        self.resume()
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
