# SPDX-License-Identifier: Apache-2.0
"""The openflow driver's own: TLS, waiting for the switch, a switch that forgets, bad settings."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from headrace.machine.processes import Supervisor
from headrace.switches.base import PortKind, PortSpec, SwitchError, SwitchSettings
from headrace.switches.registry import make_driver
from tests.openflow.test_tls import Authority, free_port
from tests.switches.beds import Bed, made
from tests.switches.packets import frame
from tests.switches.theirs import theirs

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]


def crosses(bed: Bed) -> None:
    bed.send(0, frame({}))
    assert bed.receive(1, 1) == [frame({})]


def test_tls_both_ways_and_another_authority_is_refused(rundir: Path, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    switch_key, switch_certificate = authority.sign("switch")
    key, certificate = authority.sign("node")
    wrong_key, wrong_certificate = other.sign("node")
    with theirs(rundir / "theirs") as switch:
        switch.switch.vsctl("set-ssl", switch_key, switch_certificate, authority.certificate)
        tcp = free_port()
        switch.connect(f"pssl:{tcp}:127.0.0.1")
        address = f"tls:127.0.0.1:{tcp}"
        files = {"ca": str(authority.certificate), "certificate": str(certificate), "key": str(key)}
        with (
            made("openflow", rundir, switch.ports, address=address, **files) as bed,
            bed.rules(bed.rule(0, 1)),
        ):
            crosses(bed)
        for wrong in (
            {**files, "certificate": str(wrong_certificate), "key": str(wrong_key)},
            {**files, "ca": str(other.certificate)},
        ):
            with (
                pytest.raises(SwitchError, match=r"tls:127\.0\.0\.1"),
                made("openflow", rundir, switch.ports, address=address, **wrong),
            ):
                pass


def test_the_node_waits_for_the_switch_and_restores_what_it_forgot(rundir: Path) -> None:
    with theirs(rundir / "theirs") as switch:
        tcp = free_port()
        switch.connect(f"tcp:127.0.0.1:{tcp}")
        with (
            made("openflow", rundir, switch.ports, address=f"ptcp:{tcp}") as bed,
            bed.rules(bed.rule(0, 1)),
        ):
            crosses(bed)
            assert "Headrace" in bed.run(bed.driver.version())
            time.sleep(2.5)  # longer than a probe: the connection is tended
            crosses(bed)
            switch.switch.stop_switch(signal.SIGKILL)
            switch.switch.start_switch()
            end = time.monotonic() + 20
            while not restored(bed):
                assert time.monotonic() < end, "the rule does not come back"
                time.sleep(0.2)
            crosses(bed)


def restored(bed: Bed) -> bool:
    try:
        rows = bed.run(bed.driver.rule_statistics(bed.lsi))
    except SwitchError:
        return False
    return [row.cookie for row in rows] == [bed.rule(0, 1).cookie]


def test_a_vnf_gets_a_wire_that_leads_to_the_switch(rundir: Path) -> None:
    with theirs(rundir / "theirs") as switch:
        tcp = free_port()
        switch.connect(f"ptcp:{tcp}:127.0.0.1")
        first, second = switch.ports
        wire = {"vnf-ports": f"2={second.options['iface']}"}
        prefix_port = PortSpec(name="v", kind=PortKind.VETH, options={"frames": "whole"})
        address = f"tcp:127.0.0.1:{tcp}"
        with made("openflow", rundir, [first, prefix_port], address=address, **wire) as bed:
            with bed.rules(bed.rule(0, 1), bed.rule(1, 0)):
                crosses(bed)
                bed.send(1, frame({}))
                assert bed.receive(0, 1) == [frame({})]
            more = prefix_port.model_copy(update={"name": "w"})
            with pytest.raises(SwitchError, match=r"port w: all 1 wires of .*vnf-ports are in use"):
                bed.run(bed.driver.add_port(bed.lsi, more))
            absent = PortSpec(name="q", kind=PortKind.OPENFLOW, options={"number": "9"})
            with pytest.raises(SwitchError, match="port q: the switch has no port 9; it has: 1, 2"):
                bed.run(bed.driver.add_port(bed.lsi, absent))


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({}, "switch_options.address is missing"),
        ({"address": "unix:/x"}, "'unix:/x' is none of tcp:HOST:PORT"),
        ({"address": "tcp:1.2.3.4:x"}, "is none of"),
        ({"address": "tls:1.2.3.4:6653"}, "switch_options.ca is missing"),
        ({"address": "tcp:1.2.3.4:1", "vnf-ports": "eth0"}, "'eth0' is no NUMBER=INTERFACE"),
    ],
)
async def test_bad_settings(rundir: Path, options: dict[str, str], refusal: str) -> None:
    settings = SwitchSettings(
        rundir=rundir,
        prefix="hrtest",
        cores=(0,),
        control_cores=(0,),
        memory_mb=64,
        hugepages=False,
        options=options,
    )
    with pytest.raises(SwitchError, match=refusal):
        await make_driver("openflow", settings, Supervisor(rundir)).start()
