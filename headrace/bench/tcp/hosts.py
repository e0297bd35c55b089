# SPDX-License-Identifier: Apache-2.0
"""Two hosts: network namespaces, each with one end of a veth pair whose other end is a switch's."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from headrace.bench.peers.systems import PeerError, run

IPERF_PORT = 5201
LISTENS_S = 5.0


class _Sum(BaseModel):
    bits_per_second: float


class _End(BaseModel):
    sum_received: _Sum


class _Report(BaseModel):
    """Of what `iperf3 -J` prints, the part that is used."""

    end: _End | None = None
    error: str | None = None


class Hosts:
    """A client and a server; `ports` are the switch's interfaces."""

    def __init__(self, number: int, cores: str) -> None:
        """`number` tells the pairs of one process apart: it is in all names and addresses.

        What the hosts run is on `cores`, as taskset(1) writes them.
        """
        self._on_cores = ("taskset", "-c", cores)
        stem = f"t{os.getpid() % 100000}{number}"
        self.client, self.server = f"hr{stem}c", f"hr{stem}s"
        self.ports = (f"{stem}cn", f"{stem}sn")
        self._ends = (f"{stem}cf", f"{stem}sf")
        # 100.64.0.0/10 is nobody's; a host answers for its own addresses at any interface.
        subnet = f"100.{64 + os.getpid() % 64}.{(os.getpid() // 64 * 8 + number) % 256}"
        self._addresses = (f"{subnet}.1", f"{subnet}.2")

    def __enter__(self) -> Self:
        """Makes namespaces and interfaces, and sets them up."""
        names = (self.client, self.server)
        for name, port, end, address in zip(
            names, self.ports, self._ends, self._addresses, strict=True
        ):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", port, "type", "veth", "peer", "name", end, "netns", name)
            run("ip", "link", "set", port, "addrgenmode", "none", "up")
            self.run_in(name, "ip", "addr", "add", f"{address}/24", "dev", end)
            self.run_in(name, "ip", "link", "set", end, "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes them; what is missing is no error."""
        for words in (
            *(("ip", "link", "del", port) for port in self.ports),
            *(("ip", "netns", "del", name) for name in (self.client, self.server)),
        ):
            subprocess.run(words, check=False, capture_output=True)  # noqa: S603

    @staticmethod
    def run_in(namespace: str, *words: str) -> str:
        """Runs a tool in a namespace to its end; its output."""
        return run("ip", "netns", "exec", namespace, *words)

    def leave_nothing_to_the_device(self) -> None:
        """What a switch needs that does not carry offloads: checksums by the senders."""
        for name, end in zip((self.client, self.server), self._ends, strict=True):
            self.run_in(name, "ethtool", "-K", end, "tx", "off")

    @contextmanager
    def serving(self, log: Path) -> Iterator[None]:
        """An iperf3 server in the server's namespace."""
        with log.open("wb") as output:
            server = subprocess.Popen(  # noqa: S603
                [
                    *("ip", "netns", "exec", self.server, *self._on_cores),
                    *("iperf3", "-s", "-p", str(IPERF_PORT)),
                ],
                stdout=output,
                stderr=output,
            )
            try:
                yield
            finally:
                server.terminate()
                server.wait(10)

    def is_serving(self) -> bool:
        """Whether the iperf3 server listens."""
        return f":{IPERF_PORT}" in self.run_in(self.server, "ss", "-Hltn")

    def gbps(self, seconds: float) -> float:
        """What one TCP connection with iperf3's defaults carries, Gbit/s."""
        text = self.run_in(
            *(self.client, *self._on_cores, "iperf3", "-c", self._addresses[1]),
            *("-p", str(IPERF_PORT), "-J", "-t", f"{seconds:g}", "--connect-timeout", "5000"),
        )
        report = _Report.model_validate(json.loads(text))
        if report.end is None or report.error is not None:
            raise PeerError(f"iperf3: {report.error}")
        return report.end.sum_received.bits_per_second / 1e9

    def round_trips_us(self, count: int) -> list[float]:
        """Round trips of pings, 20 ms apart, microseconds."""
        text = self.run_in(
            *(self.client, *self._on_cores),
            *("busybox", "ping", "-c", str(count), "-i", "0.02", "-W", "1"),
            self._addresses[1],
        )
        return [
            float(line.split("time=")[1].split()[0]) * 1e3
            for line in text.splitlines()
            if "time=" in line
        ]
