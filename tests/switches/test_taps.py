# SPDX-License-Identifier: Apache-2.0
"""Taps of virtual machines on switches that take interfaces only: a bridge joins the two."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.node.parts import prefix_of
from headrace.switches.base import PortKind, PortSpec
from headrace.switches.ovs import OvsDriver
from headrace.switches.tap import open_tap
from headrace.switches.veth import BRIDGE_END, TAP_END, device_name, device_names, remove_device
from tests.node.wire import udp
from tests.openflow.test_tls import free_port
from tests.switches.beds import Bed, made, veth_ports
from tests.switches.theirs import theirs

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]

HEADER = bytes(10)  # struct virtio_net_hdr: nothing is left to the other side


def tap_port(rundir: Path) -> PortSpec:
    return PortSpec(name=f"{prefix_of(rundir)}g1p9", kind=PortKind.TAP)


@contextmanager
def ovs(rundir: Path) -> Iterator[Bed]:
    if not os.access(OvsDriver.program, os.X_OK):
        pytest.skip(f"{OvsDriver.program} is not installed (make setup)")
    ports = [veth_ports(prefix_of(rundir))[0], tap_port(rundir)]
    with made("ovs:userspace", rundir, ports, datapath="userspace") as bed:
        yield bed


@contextmanager
def openflow(rundir: Path) -> Iterator[Bed]:
    with theirs(rundir / "theirs") as switch:
        tcp = free_port()
        switch.connect(f"ptcp:{tcp}:127.0.0.1")
        first, second = switch.ports
        wire = {"vnf-ports": f"2={second.options['iface']}"}
        ports, address = [first, tap_port(rundir)], f"tcp:127.0.0.1:{tcp}"
        with made("openflow", rundir, ports, address=address, **wire) as bed:
            yield bed


def comes(machine: int, frame: bytes) -> bool:
    """Whether the frame is among what comes out of the tap's file."""
    while select.select([machine], [], [], 3)[0]:
        if os.read(machine, 2048)[len(HEADER) :] == frame:
            return True
    return False


@pytest.mark.parametrize("switch", [ovs, pytest.param(openflow, marks=pytest.mark.dpdk)])
def test_frames_pass_between_a_machine_and_the_switch(rundir: Path, switch: object) -> None:
    assert callable(switch)
    with switch(rundir) as bed:
        port = bed.ports[1]
        prefix = bed.settings.prefix
        tap, bridge = (device_name(prefix, end, port.name) for end in (TAP_END, BRIDGE_END))
        assert bed.driver.attach(port).iface == tap
        machine = open_tap(tap)
        try:
            bed.run(bed.driver.wait_for_links([port]))
            with bed.rules(bed.rule(0, 1), bed.rule(1, 0)):
                for _ in range(2):
                    bed.send(0, udp(b"to the machine" + bytes(20)))
                    assert comes(machine, udp(b"to the machine" + bytes(20)))
                    os.write(machine, HEADER + udp(b"from the machine" + bytes(20)))
                    came = bed.receive(0, 1)
                    assert came == [udp(b"from the machine" + bytes(20))]
                    # The bridge goes by another's hand: it is missed, and made again.
                    assert port.name not in bed.run(bed.driver.missing([port.name]))
                    remove_device(bridge)
                    assert bed.run(bed.driver.missing([port.name])) == {port.name}
                    bed.run(bed.driver.add_port(bed.lsi, port))
                    assert bed.run(bed.driver.missing([port.name])) == set()
                    bed.run(bed.driver.wait_for_links([port]))
        finally:
            os.close(machine)
        bed.wires.pop().__exit__()
        bed.run(bed.driver.remove_port(bed.lsi, port))
        bed.ports.remove(port)
        assert not {tap, bridge} & device_names()
