# SPDX-License-Identifier: Apache-2.0
"""Time that the hypervisor took from a core while something wanted to run on it (/proc/stat)."""

import os
from collections.abc import Iterable
from pathlib import Path

STAT = Path("/proc/stat")
_STEAL = 7
"""The column of a `cpuN` line, after its name."""


def stolen_s(cores: Iterable[int], stat: Path = STAT) -> float | None:
    """Seconds stolen from the cores since the machine started, in steps of a clock tick (10 ms).

    None if the kernel does not say.
    """
    wanted = {f"cpu{core}" for core in cores}
    ticks, known = 0, False
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, *fields = line.split()
        if name in wanted and len(fields) > _STEAL:
            ticks += int(fields[_STEAL])
            known = True
    return ticks / os.sysconf("SC_CLK_TCK") if known else None
