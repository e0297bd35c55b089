# SPDX-License-Identifier: Apache-2.0
"""Events during a trial on a real node: a reset of the switch, a change of the graph.

A reset ends the switch's forwarding process; the node finds that out and starts it again with all
of its ports and rules. A reconfiguration updates the graph by `RULES` rules that no frame of the
trial matches, and removes them again. What the traffic lost then is the trial's to count.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from headrace.bench.device import Event
from headrace.bench.errors import DeviceError
from headrace.bench.graph import build, with_unused_rules
from headrace.bench.node_client import NodeClient
from headrace.bench.node_process import PORTS
from headrace.bench.owned import owned
from headrace.results import Case

RULES = 100
BACK_S = 30.0
PROCESSES = {
    "headrace": ("headrace-switch",),
    "ovs-dpdk": ("ovs-vswitchd", "ovs-vswitchd-dpdk"),
}
"""Names of the programs; the second of OVS is that of Debian's build with DPDK."""


def switch_process(rundir: Path, switch: str) -> int:
    """The id of the process that forwards for the node in `rundir`.

    Raises:
        DeviceError: the switch is the kernel's, or its process is not there.
    """
    programs = PROCESSES.get(switch)
    if programs is None:
        raise DeviceError(f"reset: {switch} is part of the kernel; there is no process to end")
    for pid in owned(rundir):
        with contextlib.suppress(OSError):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in programs:
                return pid
    raise DeviceError(f"reset: the node in {rundir} has no process {programs[0]}")


async def happen(event: Event, client: NodeClient, rundir: Path, case: Case, name: str) -> None:
    """Makes one event happen to the graph `name` of a node.

    Raises:
        DeviceError: the node refused it, or there is nothing to end.
    """
    if event == "reset":
        os.kill(switch_process(rundir, case.switch), signal.SIGKILL)
        return
    graph = build(case.shape, case.vnfs, case.function, *PORTS, prefixes=case.prefixes)
    await client.deploy(name, with_unused_rules(graph, RULES))
    await client.deploy(name, graph)


async def wait_back(client: NodeClient) -> None:
    """Waits until a switch that was ended counts cycles again.

    Raises:
        DeviceError: it does not within `BACK_S`; the last refusal.
    """
    deadline = asyncio.get_running_loop().time() + BACK_S
    while True:
        try:
            await client.switch_cycles()
            return
        except DeviceError:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.1)
