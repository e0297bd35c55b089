# SPDX-License-Identifier: Apache-2.0
"""What is known of the cycles of a VNF that doesn't count them itself: CPU time, by the kernel."""

import asyncio
import os
from pathlib import Path
from typing import Any

from headrace.engines.base import EngineError, VnfSpec
from headrace.machine.processes import Supervisor

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


async def cycles_as_cpu_time(
    supervisor: Supervisor, name: str, vnf: VnfSpec, reason: str, *, children: bool = False
) -> dict[str, Any]:
    """What Engine.cycles() says of a VNF by the CPU time of its process `name`, in nanoseconds.

    `reason`: why there are no cycles of packets; `children`: with those that the process has waited
    for (fields 14 to 17 of proc(5)'s stat). EngineError if it does not run.
    """
    process = supervisor.find(name)
    if process is None:
        raise EngineError(f"VNF {vnf.vnf}: it does not run")
    stat = await asyncio.to_thread(Path(f"/proc/{process.pid}/stat").read_text)
    fields = stat[stat.rindex(")") + 2 :].split()[11 : 15 if children else 13]
    return {
        "approximate": True,
        "busy_cycles": None,
        "idle_cycles": None,
        "packets": None,
        "cpu_ns": sum(map(int, fields)) * _TICK_NS,
        "reason": reason,
    }
