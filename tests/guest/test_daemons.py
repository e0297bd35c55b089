# SPDX-License-Identifier: Apache-2.0
"""The engine for containers of a daemon, with Docker's own and with Podman."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from headrace.node.errors import DeployFailed
from headrace.node.restarts import Restarter
from tests.guest.bed import eventually
from tests.guest.daemons import DAEMONS, containers, running
from tests.guest.images import Image, busybox
from tests.guest.test_daemon_container import BRIDGE, start, template
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.test_linux_bridge_e2e import devices, exchange

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare"),
]

IMAGE = "lab/wire:1"


@pytest.mark.parametrize("daemon", DAEMONS)
async def test_frames_pass_a_container_of_a_real_daemon(
    start_node: StartNode, rundir: Path, daemon: str
) -> None:
    image = Image(busybox(), Cmd=["/bin/sh", "-c", "exit 9"])
    with running(daemon, rundir / "daemon", {IMAGE: image}) as address:
        words = {"image": IMAGE, "pull": "never", "start": ["sh", "-c", BRIDGE], "stop_s": 1}
        node = await start(start_node, template(rundir, address, ready="mode strict", **words))
        before = devices(node.prefix)
        await node.graphs.create("g", graphs.chain("theirs", 1))
        await exchange(node)
        vnf, engine = node.vnf("g", "v0")
        assert containers(address) == [vnf.name]
        counted = (await engine.counters(vnf))["ports"].values()
        assert all(port["rx_packets"] >= 50 and port["tx_packets"] >= 50 for port in counted)
        done = await engine.execute(vnf, ["sh", "-c", "echo out; echo err >&2; exit 3"])  # type: ignore[attr-defined]
        assert (done.exit_code, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
        assert "mode strict" in node.supervisor.log_of(f"vnf-{vnf.name}").read_text()
        # No network but the graph's, no capability but the template's, the limits of the plan.
        done = await engine.execute(vnf, ["cat", "/proc/net/dev", "/proc/self/status"])  # type: ignore[attr-defined]
        said = done.stdout.decode()
        names = {line.split(":")[0].strip() for line in said.splitlines() if ": " in line}
        assert {"lo", "eth0", "eth1", "br0"} <= names
        assert "CapEff:\t0000000000001000" in said and "NoNewPrivs:\t1" in said
        assert f"Cpus_allowed_list:\t{vnf.cores[0]}\n" in said

        # Killed behind the daemon's back, it is made again, with its interfaces.
        process = node.supervisor.find(f"vnf-{vnf.name}")
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        await eventually(lambda: not engine.running(vnf))
        await Restarter(node).look()
        await exchange(node)
        await node.graphs.delete("g")
        assert containers(address) == []
        await eventually(lambda: devices(node.prefix) == before)

        file = template(rundir, address, image="lab/none:1", pull="never")
        await node.close()
        again = await start(start_node, file)
        with pytest.raises(
            DeployFailed, match=r"(?i)no such image.*lab/none:1|lab/none:1.*image not known"
        ):
            await again.graphs.create("g", graphs.chain("theirs", 1))
        assert containers(address) == []
