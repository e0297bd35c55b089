# SPDX-License-Identifier: Apache-2.0
"""Tells from /proc how a VNF's process runs: engine, cores and user, as the kernel has them."""

import os
from pathlib import Path

from headrace.engines.base import Observed
from headrace.engines.qemu import PROGRAM
from headrace.machine.processes import ProcessId


def observe(process: ProcessId | None) -> Observed | None:
    """What the process of a VNF is; None if it has ended."""
    if process is None:
        return None
    place = Path("/proc") / str(process.pid)
    try:
        first_word = (place / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        its_pids, our_pids = os.readlink(place / "ns/pid"), os.readlink("/proc/self/ns/pid")
        cores = tuple(sorted(os.sched_getaffinity(process.pid)))
        user = place.stat().st_uid
    except OSError:
        return None  # it has ended meanwhile
    if its_pids != our_pids:
        engine = "container"
    else:
        engine = "vm" if Path(first_word).name == PROGRAM else "process"
    return Observed(engine=engine, cores=cores, user=user)
