# SPDX-License-Identifier: Apache-2.0
"""Two hosts: network namespaces, each behind one port of a switch.

A host's interface is one end of a veth pair whose other end is a port of the switch, or a tap whose
other side is the guest of a vhost-user port (headrace-guest).
"""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel

from headrace.bench.peers.systems import PeerError, run
from headrace.machine.processes import UNTIL_PARENT_ENDS

IPERF_PORT = 5201
LISTENS_S = 5.0
PATIENCE_S = 20
GUEST_S = 25.0


class _Sum(BaseModel):
    bits_per_second: float


class _End(BaseModel):
    sum_received: _Sum | None = None


class _Report(BaseModel):
    """Of what `iperf3 -J` prints, the part that is used."""

    end: _End | None = None
    error: str | None = None


def received_gbps(text: str) -> float:
    """What a report of `iperf3 -J` says was received, Gbit/s.

    Raises:
        PeerError: it reports an error, or no end; then its `end` is empty.
    """
    report = _Report.model_validate_json(text)
    received = None if report.end is None else report.end.sum_received
    if report.error is not None or received is None:
        raise PeerError(f"iperf3: {report.error or 'its report has no end'}")
    return received.bits_per_second / 1e9


class Hosts(ABC):
    """A client and a server."""

    def __init__(self, number: int, cores: str) -> None:
        """`number` tells the pairs of one process apart: it is in all names and addresses.

        What the hosts run is on `cores`, as taskset(1) writes them.
        """
        self._on_cores = ("taskset", "-c", cores)
        self._stem = f"t{os.getpid() % 100000}{number}"
        self.client, self.server = f"hr{self._stem}c", f"hr{self._stem}s"
        self._interfaces = (f"{self._stem}cf", f"{self._stem}sf")
        # 100.64.0.0/10 is nobody's; a host answers for its own addresses at any interface.
        subnet = f"100.{64 + os.getpid() % 64}.{(os.getpid() // 64 * 8 + number) % 256}"
        self._addresses = (f"{subnet}.1", f"{subnet}.2")

    def __enter__(self) -> Self:
        """Makes the namespaces."""
        for name in (self.client, self.server):
            run("ip", "netns", "add", name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes them; what is missing is no error."""
        for name in (self.client, self.server):
            words = ("ip", "netns", "del", name)
            subprocess.run(words, check=False, capture_output=True)  # noqa: S603

    @abstractmethod
    def join(self, folder: Path) -> None:
        """Makes the hosts' interfaces, once the switch can be; `folder` is for logs."""

    @abstractmethod
    def park(self) -> None:
        """They are not measured for now."""

    @abstractmethod
    def resume(self) -> None:
        """They are measured next."""

    def _set_up(self) -> None:
        """Gives the interfaces their addresses."""
        for name, interface, address in zip(
            (self.client, self.server), self._interfaces, self._addresses, strict=True
        ):
            self.run_in(name, "ip", "addr", "add", f"{address}/24", "dev", interface)
            self.run_in(name, "ip", "link", "set", interface, "up")

    @staticmethod
    def run_in(namespace: str, *words: str) -> str:
        """Runs a tool in a namespace to its end; its output."""
        return run("ip", "netns", "exec", namespace, *words)

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

    def gbps(self, seconds: int) -> float:
        """What one TCP connection with iperf3's defaults carries, Gbit/s.

        Whole seconds: iperf3 takes the integer part, and 0 for ever.

        Raises:
            PeerError: it failed, or did not end.
        """
        if seconds < 1:
            raise ValueError(f"{seconds} s: iperf3 measures whole seconds, at least one")
        text = self.run_in(
            *(self.client, *self._on_cores, "timeout", f"{seconds + PATIENCE_S}"),
            *("iperf3", "-c", self._addresses[1], "-p", str(IPERF_PORT), "-J"),
            *("-t", str(seconds), "--connect-timeout", "5000"),
        )
        return received_gbps(text)

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


class VethHosts(Hosts):
    """By veth pairs; `ports` are the switch's ends."""

    def __init__(self, number: int, cores: str, *, checksums: bool = False) -> None:
        """`checksums`: the senders compute them, for a switch that does not carry offloads."""
        super().__init__(number, cores)
        self.ports = (f"{self._stem}cn", f"{self._stem}sn")
        self._checksums = checksums

    def __enter__(self) -> Self:
        """Makes namespaces and pairs, which the switch needs to be there."""
        super().__enter__()
        names = (self.client, self.server)
        for name, port, end in zip(names, self.ports, self._interfaces, strict=True):
            run("ip", "link", "add", port, "type", "veth", "peer", "name", end, "netns", name)
            run("ip", "link", "set", port, "addrgenmode", "none", "up")
            if self._checksums:
                self.run_in(name, "ethtool", "-K", end, "tx", "off")
        self._set_up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Removes all."""
        for port in self.ports:
            words = ("ip", "link", "del", port)
            subprocess.run(words, check=False, capture_output=True)  # noqa: S603
        super().__exit__(kind, error, trace)

    def join(self, folder: Path) -> None:
        """Nothing: the pairs are there."""

    def park(self) -> None:
        """They do nothing while nothing is sent."""

    def resume(self) -> None:
        """Nothing to do."""


class Guests(Hosts):
    """Guests of vhost-user ports, each by a headrace-guest that listens at one of `sockets`."""

    def __init__(self, number: int, cores: str, program: Path) -> None:
        """`program` is headrace-guest."""
        super().__init__(number, cores)
        self.sockets: tuple[Path, Path] | None = None
        self._program = program
        self._cpu = cores.split(",")[0]
        self._processes: list[subprocess.Popen[bytes]] = []

    def join(self, folder: Path) -> None:
        """Starts both guests and waits for their links.

        Raises:
            PeerError: one found no switch; with what it said.
        """
        assert self.sockets is not None
        logs = []
        for name, interface, socket in zip(
            (self.client, self.server), self._interfaces, self.sockets, strict=True
        ):
            log = folder / f"{name}.log"
            logs.append(log)
            with log.open("wb") as output:
                self._processes.append(
                    subprocess.Popen(  # noqa: S603
                        [
                            *(*UNTIL_PARENT_ENDS, "ip", "netns", "exec", name),
                            *(str(self._program), "--socket", str(socket)),
                            *("--tap", interface, "--cpu", self._cpu),
                        ],
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=output,
                    )
                )
        deadline = time.monotonic() + GUEST_S
        for log, process in zip(logs, self._processes, strict=True):
            while "ready" not in log.read_text(errors="replace"):
                if process.poll() is not None or time.monotonic() > deadline:
                    told = log.read_text(errors="replace")[-1500:]
                    raise PeerError(f"headrace-guest found no switch: {told}")
                time.sleep(0.02)
        self._set_up()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the guests."""
        self.resume()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        super().__exit__(kind, error, trace)

    def park(self) -> None:
        """They poll: they are stopped."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets them go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)
