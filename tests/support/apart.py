# SPDX-License-Identifier: Apache-2.0
"""Runs a command, pytest, in Linux namespaces of its own, so that nothing outlives it.

When a test run ends, even by SIGKILL, the kernel ends every process of its PID namespace and takes
back what only its other namespaces held: network interfaces, named namespaces, mounts, temporary
files, hugepage files. So two runs never meet, and no run finds what a killed one has left.

    pytest (conftest.py) -exec-> outside -fork-> init (PID 1) -fork-> pytest, again

`outside` waits and hands SIGTERM on. `init` has new mounts of /proc, /sys, /run (also for temporary
files) and each hugetlbfs, and reaps orphans. HEADRACE_TESTS_APART=no leaves the tests where they
are, to look at what they made. Containers' empty cgroups are what a killed run can leave.

Run as a program with the command as its arguments; needs root and only the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

VARIABLE = "HEADRACE_TESTS_APART"
INSIDE = "inside"

# sched.h, sys/mount.h, sys/prctl.h
_CLONE_NEWNS, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def wanted() -> bool:
    """Whether the tests should move: they can (root), have not yet, and nobody has said no."""
    return os.geteuid() == 0 and VARIABLE not in os.environ


def move(pytest_arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by one that runs pytest with these arguments apart."""
    program = [sys.executable, str(Path(__file__))]
    os.execv(sys.executable, [*program, sys.executable, "-m", "pytest", *pytest_arguments])


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}; {VARIABLE}=no runs the tests here")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode() or None)
    _check(_libc.mount(*words, flags, options.encode() or None), f"mount on {target}")


def _unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


def _mounts() -> list[tuple[str, str, str]]:
    """What is mounted: (where, kind, options) of proc(5)'s mounts."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [(fields[1], fields[2], fields[3]) for fields in lines]


def _furnish() -> None:
    """Mounts what belongs to these namespaces over what belongs to the machine."""
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    before = _mounts()
    _mount("proc", "/proc", "proc")
    _mount("tmpfs", "/run", "tmpfs", options="mode=755")
    # A sysfs shows the network of whoever mounted it; what stood inside the old one comes along.
    old = Path("/run/sys")
    old.mkdir()
    _mount("/sys", str(old), flags=_MS_BIND | _MS_REC)
    _mount("sysfs", "/sys", "sysfs")
    for inner in ("fs/cgroup", "fs/bpf", "kernel/debug", "kernel/tracing"):
        if any(where == f"/sys/{inner}" for where, _, _ in before):
            _mount(str(old / inner), f"/sys/{inner}", flags=_MS_BIND | _MS_REC)
    _unmount(str(old))
    old.rmdir()
    for where, kind, options in before:
        if kind == "hugetlbfs":
            size = [word for word in options.split(",") if word.startswith("pagesize=")]
            _mount("none", where, "hugetlbfs", options=",".join(size))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _init(command: Sequence[str]) -> int:
    """PID 1: runs the command, reaps whatever is orphaned, returns the command's exit status."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    _furnish()
    environment = {**os.environ, VARIABLE: INSIDE, "TMPDIR": "/run"}
    child = subprocess.Popen(command, env=environment).pid

    def hand_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches pytest as well
    while True:
        ended, status = os.wait()
        if ended == child:
            return os.waitstatus_to_exitcode(status)


def main(command: Sequence[str]) -> int:
    """Makes the namespaces and waits for what runs in them; returns the command's exit status."""
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWNET), "unshare")
    child = os.fork()
    if child == 0:
        status = 70  # EX_SOFTWARE of sysexits.h
        try:
            status = _init(command)
        except OSError as error:
            print(f"tests: {error}", file=sys.stderr)
        finally:
            os._exit(status if status >= 0 else 128 - status)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
