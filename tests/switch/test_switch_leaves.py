# SPDX-License-Identifier: Apache-2.0
"""SIGTERM at any moment: while the switch starts, makes ports, forwards or changes them.

$HEADRACE_LEAVE_ROUNDS: how often (default 6).
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from headrace.machine.programs import find_program
from tests.support.daemon import Daemon
from tests.support.switch import Switch, unique_bridge

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

ROUNDS = int(os.environ.get("HEADRACE_LEAVE_ROUNDS", "6"))


def _fill(switch: Switch, bridge: str) -> None:
    """A bridge with ports of many kinds, packets on their way through it, and queues."""
    rundir = switch.rundir
    ports = {
        "source": "type=dpdk options:dpdk-devargs=net_null_source,size=60 ofport_request=1",
        "sink": "type=dpdk options:dpdk-devargs=net_null_sink,no-rx=1 ofport_request=2",
        "ms": f"type=memif options:socket={rundir}/loop.sock options:role=server ofport_request=3",
        "mc": f"type=memif options:socket={rundir}/loop.sock options:role=client ofport_request=4",
        f"{bridge}t": "type=tap ofport_request=5",
        "vhost": f"type=dpdkvhostuserclient options:vhost-server-path={rundir}/nobody",
        "p0": "type=patch options:peer=p1",
        "p1": "type=patch options:peer=p0",
        "tun": "type=vxlan options:remote_ip=192.0.2.1 options:local_ip=192.0.2.9",
    }
    words = ["add-br", bridge, "--", "set-fail-mode", bridge, "secure"]
    for name, columns in ports.items():
        words += ["--", "add-port", bridge, name, "--", "set", "Interface", name, *columns.split()]
    words += ["--", "set-controller", bridge, f"unix:{rundir}/nobody.mgmt"]
    words += ["--", "set", "Port", "sink", "qos=@q", "--", "--id=@q", "create", "QoS"]
    words += [
        "type=linux-htb",
        "queues:0=@q0",
        "--",
        "--id=@q0",
        "create",
        "Queue",
        "other-config:min-rate=1000000",
    ]
    switch.vsctl(*words)
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2,output:3,controller")
    switch.ofctl("add-flow", bridge, "in_port=4,actions=output:5")


def _start(switch: Switch) -> Daemon:
    return Daemon(
        [
            find_program("headrace-switch"),
            *("--db", f"unix:{switch.database}", "--rundir", switch.rundir),
            *("--mem", "128", "--no-huge"),
        ],
        switch.rundir / "switch.log",
    )


def _churn(switch: Switch, bridge: str, stop: threading.Event) -> None:
    """Makes and removes a port again and again; the switch may go meanwhile."""
    while not stop.is_set():
        for words in (
            ("add-port", bridge, "churn", "--", "set", "Interface", "churn", "type=dpdk",
             "options:dpdk-devargs=net_ring_churn"),
            ("--if-exists", "del-port", bridge, "churn"),
        ):  # fmt: skip
            subprocess.run(
                ["ovs-vsctl", f"--db=unix:{switch.database}", "--no-wait", *words],
                check=False, capture_output=True, timeout=20,
            )  # fmt: skip


def test_it_leaves_cleanly_at_any_moment(rundir: Path) -> None:
    switch = Switch(rundir, extra=("--no-huge",))
    bridge = unique_bridge()
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    stop = threading.Event()
    switch.start()
    churn = threading.Thread(target=_churn, args=(switch, bridge, stop))
    try:
        _fill(switch, bridge)
        assert switch.stop_switch() == 0
        churn.start()
        for number in range(ROUNDS):
            process = _start(switch)
            time.sleep(moments.uniform(0.0, 1.5))
            early = process.exit_code
            assert early is None, f"round {number}: ended with {early}:\n{process.log_tail()}"
            code = process.stop(timeout_s=20)
            # Before it has set up its handler, the signal itself ends it.
            assert code in (0, -15), f"round {number}, seed {seed}: {code}:\n{process.log_tail()}"
    finally:
        stop.set()
        if churn.is_alive():
            churn.join()
        switch.stop()
