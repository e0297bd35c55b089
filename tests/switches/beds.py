# SPDX-License-Identifier: Apache-2.0
"""Each switch with four ports of which the test has the far ends, behind its driver.

A switch that this machine lacks is skipped with the reason.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headrace.machine.processes import Supervisor
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.parts import prefix_of
from headrace.switches.base import PortKind, PortSpec, SwitchDriver, SwitchSettings
from headrace.switches.ovs import OvsDriver, kernel_has_datapath
from headrace.switches.registry import make_driver
from headrace.switches.rules import Action, FieldMatch, Output, Rule
from tests.node.wire import Wire
from tests.openflow.test_tls import free_port
from tests.support.switch import run, running_switch, unique_bridge
from tests.support.veth import VethPair

T = TypeVar("T")
PORTS = 4
PATIENCE_S = 5.0


@dataclass
class Bed:
    """A switch behind its driver; `run` runs what the driver does, on the bed's own event loop."""

    name: str
    settings: SwitchSettings
    ports: list[PortSpec]
    driver: SwitchDriver
    runner: asyncio.Runner
    wires: list[Wire] = field(default_factory=list)
    settle: Callable[[], object] = lambda: None
    """Returns when what a barrier has acknowledged is in force in the datapath, too."""

    @property
    def lsi(self) -> str:
        """The LSI of all ports."""
        return f"{self.settings.prefix}-1"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end."""
        return self.runner.run(asyncio.wait_for(work, 60))

    def again(self) -> bool:
        """Another driver in the place of the first, as after a restart of the node; what starts.

        Returns whether the switch was adopted.
        """
        close = getattr(self.driver, "close", None)
        if close is not None:
            self.run(close())
        driver_name = self.name.partition(":")[0]
        self.driver = make_driver(driver_name, self.settings, Supervisor(self.settings.rundir))
        return self.run(self.driver.start())

    def open(self) -> None:
        """Opens the far ends of all ports."""
        self.wires = []
        for port in self.ports:
            iface = self.driver.attach(port).iface
            assert iface is not None
            self.wires.append(Wire(iface))

    def rule(
        self,
        source: int,
        *actions: int | Action,
        match: dict[str, FieldMatch] | None = None,
        priority: int = 10,
        lsi: str | None = None,
        **more: int,
    ) -> Rule:
        """A rule for what comes in on port `source`; numbers among the actions are outputs."""
        return Rule(
            lsi=lsi or self.lsi,
            label=f"contract/{source}",
            priority=priority,
            in_port=self.ports[source].name,
            match=match or {},
            actions=tuple(
                Output(port=self.ports[a].name) if isinstance(a, int) else a for a in actions
            ),
            **more,
        )

    @contextmanager
    def rules(self, *rules: Rule) -> Iterator[None]:
        """Rules that are there for a while; nothing that came before is left to be received."""
        for wire in self.wires:
            wire.drain()
        self.install(*rules)
        try:
            yield
        finally:
            self.run(self._remove(rules))

    def install(self, *rules: Rule) -> None:
        """Installs rules; they are in force."""
        self.run(self._install(rules))

    async def _install(self, rules: Sequence[Rule]) -> None:
        for lsi in sorted({rule.lsi for rule in rules}):
            await self.driver.install_rules(lsi, [rule for rule in rules if rule.lsi == lsi])
        await asyncio.to_thread(self.settle)

    async def _remove(self, rules: Sequence[Rule]) -> None:
        for lsi in sorted({rule.lsi for rule in rules}):
            await self.driver.remove_rules(lsi, [rule for rule in rules if rule.lsi == lsi])
        await asyncio.to_thread(self.settle)

    def send(self, source: int, *frames: bytes) -> None:
        """Sends frames into the switch."""
        for frame in frames:
            self.wires[source].send(frame)

    def receive(self, target: int, count: int, patience_s: float = PATIENCE_S) -> list[bytes]:
        """The next frames out of the switch, fewer if they do not come in time."""
        return self.run(self.wires[target].receive(count, patience_s))

    def silent(self, target: int) -> bool:
        """Whether nothing (more) has come out of a port."""
        return self.receive(target, 1, 0.01) == []

    def counters(self, port: int) -> dict[str, int]:
        """A port's counters."""
        rows = self.run(self.driver.port_statistics())
        name = self.ports[port].name
        (row,) = [row for row in rows if (row.lsi, row.port) == (self.lsi, name)]
        return row.model_dump(exclude={"lsi", "port", "ofport"})


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds; switches count with a delay."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def veth_ports(prefix: str) -> list[PortSpec]:
    """Ports that end in interfaces of this machine."""
    return [
        PortSpec(name=f"{prefix}g1p{n}", kind=PortKind.VETH, options={"frames": "whole"})
        for n in range(PORTS)
    ]


@contextmanager
def made(
    name: str, rundir: Path, ports: list[PortSpec] | None = None, **options: str
) -> Iterator[Bed]:
    """A bed of the driver `name` (up to a colon)."""
    prefix = prefix_of(rundir)
    settings = SwitchSettings(
        rundir=rundir,
        prefix=prefix,
        cores=(max(os.sched_getaffinity(0)),),
        control_cores=(min(os.sched_getaffinity(0)),),
        memory_mb=128,
        hugepages=False,
        max_sleep_us=250,
        options=options,
    )
    driver = make_driver(name.partition(":")[0], settings, Supervisor(rundir))
    bed = Bed(name, settings, ports or veth_ports(prefix), driver, asyncio.Runner())

    async def fill() -> None:
        await bed.driver.start()
        await bed.driver.create_lsi(bed.lsi)
        for port in bed.ports:
            await bed.driver.add_port(bed.lsi, port)
        pairs = [port for port in bed.ports if port.kind is PortKind.VETH]
        await bed.driver.wait_for_links(pairs)

    try:
        bed.run(fill())
        bed.open()
        yield bed
    finally:
        for wire in bed.wires:
            wire.__exit__()
        bed.run(bed.driver.stop())
        bed.runner.close()


def _headrace(rundir: Path) -> Any:
    _need("headrace-switch")
    return made("headrace", rundir)


def _ovs_dpdk(rundir: Path) -> Any:
    from headrace.switches.ovs_dpdk import PROGRAM

    if not os.access(PROGRAM, os.X_OK):
        pytest.skip(f"{PROGRAM} is not installed (make setup)")
    return made("ovs-dpdk", rundir)


def _ovs(rundir: Path) -> Any:
    return made("ovs:userspace", rundir, datapath="userspace")


@contextmanager
def _ovs_kernel(rundir: Path) -> Iterator[Bed]:
    if not kernel_has_datapath():
        pytest.skip("this kernel has no Open vSwitch datapath (module openvswitch); in the lab "
                    "guest it has: tests/guest/test_lab.py")  # fmt: skip
    with made("ovs:kernel", rundir, datapath="kernel") as bed:
        assert isinstance(bed.driver, OvsDriver)
        control = bed.driver.directory / "vswitchd.ctl"
        bed.settle = lambda: run("ovs-appctl", "-t", control, "revalidator/wait")
        yield bed


def _linux_bridge(rundir: Path) -> Any:
    return made("linux-bridge", rundir)


@contextmanager
def _openflow_headrace(rundir: Path) -> Iterator[Bed]:
    """headrace-switch as somebody else's switch, whose ports the test has made."""
    _need("headrace-switch")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-of-")))
        switch = stack.enter_context(running_switch(place, extra=("--no-huge",)))
        bridge, tcp = unique_bridge(), free_port()
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        ports = []
        for number in range(1, PORTS + 1):
            pair = stack.enter_context(VethPair())
            switch.vsctl(
                *("add-port", bridge, pair.near, "--", "set", "Interface", pair.near),
                *("type=system", "options:mode=af_packet", f"ofport_request={number}"),
            )
            options = {"number": str(number), "iface": pair.far}
            ports.append(PortSpec(name=f"p{number}", kind=PortKind.OPENFLOW, options=options))
        switch.vsctl("set-controller", bridge, f"ptcp:{tcp}:127.0.0.1")
        address = f"tcp:127.0.0.1:{tcp}"
        with made("openflow:headrace", rundir, ports, address=address) as bed:
            yield bed


@contextmanager
def _openflow_ovs(rundir: Path) -> Iterator[Bed]:
    """A bridge of Open vSwitch as somebody else's switch."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hr-of-")))
        theirs = stack.enter_context(made("ovs:userspace", place, datapath="userspace"))
        assert isinstance(theirs.driver, OvsDriver)
        rows = theirs.run(theirs.driver.port_statistics())
        numbers = {row.port: row.ofport for row in rows}
        ports = [
            PortSpec(
                name=f"p{n}",
                kind=PortKind.OPENFLOW,
                options={
                    "number": str(numbers[port.name]),
                    "iface": theirs.driver.attach(port).iface or "",
                },
            )
            for n, port in enumerate(theirs.ports)
        ]
        address = stack.enter_context(_reachable(theirs))
        database = f"--db=unix:{theirs.driver.socket}"
        run("ovs-vsctl", database, "set-controller", theirs.lsi, f"ptcp:6653:{address}")
        bed = stack.enter_context(
            made("openflow:ovs", rundir, ports, address=f"tcp:{address}:6653")
        )
        control = theirs.driver.directory / "vswitchd.ctl"
        bed.settle = lambda: run("ovs-appctl", "-t", control, "revalidator/wait")
        yield bed


@contextmanager
def _vpp_fake(rundir: Path) -> Iterator[Bed]:
    """A program that speaks VPP's binary API and does what its cross connects do."""
    from tests.switches.fake_vpp import FakeVpp

    with tempfile.TemporaryDirectory(prefix="hr-vpp-") as place:
        socket = Path(place) / "api.sock"
        with FakeVpp(socket), made("vpp:fake", rundir, socket=str(socket)) as bed:
            yield bed


@contextmanager
def _sriov_fake(rundir: Path) -> Iterator[Bed]:
    """An adapter of veth pairs, whose filters a program here carries out."""
    from tests.switches.fake_nic import FakeNic

    with (
        tempfile.TemporaryDirectory(prefix="hr-nic-") as place,
        FakeNic(Path(place), PORTS) as nic,
        made("sr-iov:fake", rundir, pf=nic.pf, sysfs=place) as bed,
    ):
        yield bed


@contextmanager
def _vpp_fake_program(rundir: Path) -> Iterator[Bed]:
    """The same, started by the driver."""
    with (
        tempfile.TemporaryDirectory(prefix="hr-vpp-") as place,
        made("vpp:fake-program", rundir, program=str(fake_vpp_program(Path(place)))) as bed,
    ):
        yield bed


def fake_vpp_program(folder: Path) -> Path:
    """A program `vpp` that is tests/switches/fake_vpp.py."""
    program = folder / "vpp"
    root = Path(__file__).resolve().parents[2]
    module = "tests.switches.fake_vpp"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m {module} "$@"\n')
    program.chmod(0o755)
    return program


def _vpp(rundir: Path) -> Any:
    if shutil.which("vpp") is None:
        pytest.skip("VPP is not installed (program vpp)")
    return made("vpp", rundir, program="vpp")


@contextmanager
def _reachable(bed: Bed) -> Iterator[str]:
    """An address of the daemon's network namespace that this one reaches, by a pair of its own."""
    process = Supervisor(bed.settings.rundir).find("switch")
    assert process is not None
    stem = f"169.254.{os.getpid() % 250}.{4 * (process.pid % 60)}".rsplit(".", 1)
    ours, theirs = (f"{stem[0]}.{int(stem[1]) + n}" for n in (1, 2))
    inside = ("nsenter", "-t", str(process.pid), "-n", "ip")
    with VethPair() as pair:
        run("ip", "link", "set", pair.near, "netns", str(process.pid))
        run("ip", "addr", "add", f"{ours}/30", "dev", pair.far)
        run(*inside, "addr", "add", f"{theirs}/30", "dev", pair.near)
        run(*inside, "link", "set", pair.near, "up")
        yield theirs


def _need(program: str) -> None:
    try:
        find_program(program)
    except ProgramMissing as error:
        pytest.skip(str(error))


BEDS: dict[str, Callable[[Path], Any]] = {
    "headrace": _headrace,
    "ovs-dpdk": _ovs_dpdk,
    "ovs:userspace": _ovs,
    "ovs:kernel": _ovs_kernel,
    "linux-bridge": _linux_bridge,
    "openflow:headrace": _openflow_headrace,
    "openflow:ovs": _openflow_ovs,
    "vpp:fake": _vpp_fake,
    "vpp:fake-program": _vpp_fake_program,
    "vpp": _vpp,
    "sr-iov:fake": _sriov_fake,
}
