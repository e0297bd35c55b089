# SPDX-License-Identifier: Apache-2.0
"""With what processes have ended that others have started for us, such as runc its containers.

Whoever is their reaper (prctl(2), PR_SET_CHILD_SUBREAPER) gets them as children when the program
that has started them is gone, and learns their exit codes. It must then wait for all such children,
or they stay as zombies.
"""

import contextlib
import ctypes
import os
from collections.abc import MutableMapping

_PR_SET_CHILD_SUBREAPER = 36


def become_reaper(yes: bool = True) -> None:
    """Makes this process the parent of what its descendants leave behind, or no longer.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def reap(pid: int, exits: MutableMapping[int, int]) -> int | None:
    """The exit code of a child that has ended (negative: a signal), noted in `exits`; else None."""
    with contextlib.suppress(ChildProcessError):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            exits[pid] = os.waitstatus_to_exitcode(status)
    return exits.get(pid)


class Reaper:
    """Waits for children that nobody else waits for: those that are zombies in two looks."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def look(self, known: frozenset[int] = frozenset()) -> None:
        """Waits for what was a zombie at the last look, too; `known` are others' to wait for."""
        zombies = _zombies() - known
        for pid in zombies & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = zombies


def _zombies() -> set[int]:
    """The children of this process that have ended and were not waited for."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as children:
                pids = [int(pid) for pid in children.read().split()]
        except OSError:
            continue
        for pid in pids:
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/stat") as stat:
                    text = stat.read()
                if text[text.rindex(")") + 2] == "Z":
                    found.add(pid)
    return found
