# SPDX-License-Identifier: Apache-2.0
"""What processor this is, and for how long threads of a process waited for their core."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def processor() -> dict[str, Any]:
    """The processor's model name and the number of cores, as manifests of results have them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return {"processor": found[1].strip() if found else "unknown", "cores": os.cpu_count()}


def waited_ns(pid: int, cores: Iterable[int]) -> int | None:
    """Nanoseconds that the threads which are pinned to one of `cores` were kept from it.

    None if the process has no such thread, or the kernel does not say (schedstat).
    """
    wanted, total = set(cores), None
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return None
    for task in tasks:
        try:
            pinned = os.sched_getaffinity(int(task.name))
            if len(pinned) == 1 and pinned <= wanted:
                total = (total or 0) + int((task / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has ended
    return total
