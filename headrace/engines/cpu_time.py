# SPDX-License-Identifier: Apache-2.0
"""What is known of the cycles of a VNF that doesn't count them itself: CPU time, by the kernel."""

import asyncio
from typing import Any

import psutil

from headrace.engines.base import EngineError, VnfSpec
from headrace.machine.processes import Supervisor


async def cycles_as_cpu_time(
    supervisor: Supervisor, name: str, vnf: VnfSpec, reason: str, *, children: bool = False
) -> dict[str, Any]:
    """What Engine.cycles() says of a VNF by the CPU time of its process `name`, in nanoseconds.

    `reason`: why there are no cycles of packets; `children`: with those that the process has waited
    for. EngineError if it does not run.
    """
    process = supervisor.find(name)
    if process is None:
        raise EngineError(f"VNF {vnf.vnf}: it does not run")
    try:
        times = await asyncio.to_thread(lambda: psutil.Process(process.pid).cpu_times())
    except psutil.NoSuchProcess as error:
        raise EngineError(f"VNF {vnf.vnf}: it has ended") from error
    seconds = times.user + times.system
    if children:
        seconds += times.children_user + times.children_system
    return {
        "approximate": True,
        "busy_cycles": None,
        "idle_cycles": None,
        "packets": None,
        "cpu_ns": round(seconds * 1e9),
        "reason": reason,
    }
