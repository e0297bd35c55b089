# SPDX-License-Identifier: Apache-2.0
"""What holds for each test, whichever folder it is in."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_AUTOGROUP = Path("/proc/self/autogroup")


def _session_nice() -> str | None:
    """The nice value of this process's session, where the kernel has autogroups (sched(7))."""
    with contextlib.suppress(OSError):
        if found := re.search(r"nice (-?\d+)", _AUTOGROUP.read_text()):
            return found[1]
    return None


@pytest.fixture(autouse=True)
def _scheduling() -> Iterator[None]:
    """Puts back the priority of the tests' process, and its cores.

    A benchmark raises its own priority and that of its session. In the tests' process every later
    test would run with it, and all that they start.
    """
    nice, session = os.getpriority(os.PRIO_PROCESS, 0), _session_nice()
    cores = os.sched_getaffinity(0)
    yield
    if os.sched_getaffinity(0) != cores:
        os.sched_setaffinity(0, cores)
    if os.getpriority(os.PRIO_PROCESS, 0) != nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    if session is not None and _session_nice() != session:
        _AUTOGROUP.write_text(session)
