# SPDX-License-Identifier: Apache-2.0
"""Raises the priority of what is measured over whatever else the machine does meanwhile.

A poller that is preempted in the middle of a burst counts the other program's time as its own busy
cycles. Children inherit the priority, so raising that of the bench before it starts generator and
nodes raises all of them alike: they still share fairly among each other.
"""

import os

NICE = -10


def raise_priority(nice: int = NICE) -> str:
    """Sets the nice value of this process, if it may; says what holds now (for the manifest)."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except PermissionError:
        now = os.getpriority(os.PRIO_PROCESS, 0)
        return f"nice {now}: not allowed to raise it, other programs disturb more"
    return f"nice {nice} for generator, switches and VNFs alike"
