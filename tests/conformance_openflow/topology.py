# SPDX-License-Identifier: Apache-2.0
"""The network of the suite: a target and a tester switch, joined port 1-1, 2-2 and 3-3.

The tester is Open vSwitch (userspace datapath). Headrace as target has tap ports, which Open
vSwitch takes as its system ports: so no frame passes the kernel's VLAN stripping on its way into
the target. Open vSwitch as target is a second bridge of the same process, over veth pairs.

All runs in the network namespace that the caller made, with fixed names.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance_openflow.sockets import PacketSockets
from tests.support.daemon import Daemon
from tests.support.switch import SCHEMA, Switch, run

PORTS = (1, 2, 3)
TESTER_CONTROL = "tester/vswitchd.ctl"
"""The control socket of the tester's ovs-vswitchd, in the run's directory."""
MAX_SLEEP_US = 100
TARGET_DPID = "0000000000000001"
TESTER_DPID = "0000000000000002"


class OpenVSwitch:
    """An ovsdb-server and an ovs-vswitchd (with these further options) of our own in `rundir`."""

    def __init__(self, rundir: Path, *options: str) -> None:
        self.rundir = rundir
        self._options = options
        self.database = rundir / "db.sock"
        self.pid = 0
        """The process of ovs-vswitchd, once it is started."""
        self._daemons: list[Daemon] = []

    def start(self) -> None:
        """Starts both; returns when ovs-vswitchd answers."""
        rows = self.rundir / "conf.db"
        run("ovsdb-tool", "create", rows, SCHEMA)
        server = Daemon(
            [
                "/usr/sbin/ovsdb-server",
                f"--remote=punix:{self.database}",
                f"--unixctl={self.rundir}/ovsdb.ctl",
                "--no-chdir",
                rows,
            ],
            self.rundir / "ovsdb-server.log",
        )
        self._daemons.append(server)
        server.wait_until(self.database.exists)
        self.vsctl("--no-wait", "init")
        control = self.rundir / Path(TESTER_CONTROL).name
        switch = Daemon(
            [
                "/usr/bin/env",
                f"OVS_RUNDIR={self.rundir}",
                "/usr/sbin/ovs-vswitchd",
                f"--unixctl={control}",
                "--no-chdir",
                *self._options,
                f"unix:{self.database}",
            ],
            self.rundir / "ovs-vswitchd.log",
        )
        self._daemons.append(switch)
        switch.wait_until(control.exists)
        self.pid = switch.pid

    def vsctl(self, *words: str) -> str:
        """Runs ovs-vsctl on this database."""
        return run("ovs-vsctl", f"--db=unix:{self.database}", "--timeout=30", *words)

    def stop(self) -> None:
        """Ends both."""
        for daemon in reversed(self._daemons):
            daemon.stop()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def _bridge(dpid: str, name: str, controller: str) -> list[str]:
    """ovs-vsctl words that make a bridge for the suite."""
    return [
        *("--", "add-br", name),
        *("--", "set", "Bridge", name, "datapath_type=netdev", "protocols=OpenFlow13"),
        *("--", "set", "Bridge", name, f"other-config:datapath-id={dpid}", "fail-mode=secure"),
        *("--", "set-controller", name, controller),
    ]


def _port(bridge: str, device: str, number: int, kind: str) -> list[str]:
    return [
        *("--", "add-port", bridge, device),
        *("--", "set", "Interface", device, f"type={kind}", f"ofport_request={number}"),
    ]


@contextmanager
def topology(target: str, rundir: Path, controller: str) -> Iterator[PacketSockets]:
    """Both switches, running and connecting to `controller` (an OVSDB controller target).

    Yields the sockets by which Open vSwitch receives, as tester and as target if it is that too.
    """
    tester = OpenVSwitch(rundir / "tester")
    tester.rundir.mkdir()
    headrace: Switch | None = None
    try:
        tester.start()
        if target == "headrace":
            (rundir / "target").mkdir()
            headrace = Switch(rundir / "target")
            headrace.start()
            # A worker that spins would take a core from the tester, which sends, receives and
            # measures: on two cores it then loses what it is to count.
            headrace.vsctl("set", "Open_vSwitch", ".", f"other_config:pmd-maxsleep={MAX_SLEEP_US}")
            words = _bridge(TARGET_DPID, "target", controller)
            for number in PORTS:
                words += _port("target", f"link{number}", number, "tap")
            headrace.vsctl(*words[1:])
        else:
            for number in PORTS:
                _ip("link", "add", f"link{number}", "type", "veth", "peer", "name", f"far{number}")
                _ip("link", "set", f"far{number}", "up")
            words = _bridge(TARGET_DPID, "target", controller)
            for number in PORTS:
                words += _port("target", f"far{number}", number, "system")
            tester.vsctl(*words[1:])
        words = _bridge(TESTER_DPID, "tester", controller)
        for number in PORTS:
            _ip("link", "set", f"link{number}", "up")
            words += _port("tester", f"link{number}", number, "system")
        tester.vsctl(*words[1:])
        sockets = PacketSockets(tester.pid)
        if len(sockets) < len(PORTS):
            raise RuntimeError(f"the tester has {len(sockets)} packet sockets for {PORTS}")
        try:
            yield sockets
        finally:
            sockets.close()
    finally:
        if headrace is not None:
            headrace.stop()
        tester.stop()
