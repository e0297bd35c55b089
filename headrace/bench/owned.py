# SPDX-License-Identifier: Apache-2.0
"""Finds and terminates the processes that a node has started, by an environment variable.

Every process of a node has `HEADRACE_OWNER=<rundir>#<name>` in its environment. `headrace down`
normally terminates them; `end_owned` is for when that failed, so that a bench never leaves a
polling process behind.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

OWNER = b"HEADRACE_OWNER="
TIMEOUT_S = 5.0
POLL_S = 0.05
_PROC = Path("/proc")


def owned(rundir: Path) -> Iterator[int]:
    """Ids of the processes that the node in `rundir` has started."""
    mark = OWNER + str(rundir).encode() + b"#"
    for folder in _PROC.glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                yield int(folder.name)
        except OSError:
            continue


async def end_owned(rundir: Path) -> int:
    """Terminates a node's remaining processes: SIGTERM, then SIGKILL. Returns their number."""
    left = list(owned(rundir))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in owned(rundir):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)
        for _ in range(round(TIMEOUT_S / POLL_S)):
            if not any(owned(rundir)):
                break
            await asyncio.sleep(POLL_S)
    return len(left)
