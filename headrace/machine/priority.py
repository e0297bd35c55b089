# SPDX-License-Identifier: Apache-2.0
"""The scheduling priority of the node and its database over the VNFs that poll on their core.

Both run `RAISED_BY` nice levels before what the node was started with, which is what switch and
VNFs run with. nice(2) weighs the processes of one group against each other; where Linux has
autogroups each session is such a group, with a nice value of its own (autogroup.py).

Thread safety: `raise_own` is called once, before anything is started.
"""

import contextlib
import os
from collections.abc import Sequence

from headrace.machine.autogroup import set_nice

RAISED_BY = 10
"""Nice levels: 9.5 times the weight of an ordinary process (sched(7))."""

_LOWEST = -20

_raised = 0


def raise_own() -> None:
    """Raises this process over what it will start; not allowed without CAP_SYS_NICE, then not."""
    global _raised
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, max(before - RAISED_BY, _LOWEST))
    now = os.getpriority(os.PRIO_PROCESS, 0)
    _raised = before - now
    set_nice("self", now)


def ordinary(argv: Sequence[str]) -> list[str]:
    """A command that runs with the priority that this process had before `raise_own`."""
    return ["/usr/bin/nice", "-n", str(_raised), "--", *argv] if _raised else list(argv)
