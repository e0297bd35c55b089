# SPDX-License-Identifier: Apache-2.0
"""What a killed test run leaves: nothing (tests/support/apart.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import apart

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes namespaces"),
]

MARK = f"HEADRACE_LEFT_BY={os.getpid()}"

# Makes one of each, says so, and waits to be killed: a process of a session of its own, a named
# network namespace, an interface, a temporary file.
MESS = """
import pathlib, subprocess, tempfile, time
subprocess.run(["ip", "netns", "add", "hr-mess"], check=True)
subprocess.run(["ip", "link", "add", "hr-mess", "type", "veth"], check=True)
tempfile.mkstemp(prefix="hr-mess-")
subprocess.Popen(["sleep", "600"], start_new_session=True)
print("made", flush=True)
time.sleep(600)
"""


def marked() -> list[str]:
    """The processes that have the mark of this test in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                held = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if MARK.encode() in held:
                found.append((entry / "comm").read_text().strip())
    return found


def messy(**settings: str) -> subprocess.Popen[str]:
    """Starts the mess apart; returns when it is made."""
    name, value = MARK.split("=")
    environment = {**os.environ, name: value, **settings}
    command = [sys.executable, apart.__file__, sys.executable, "-c", MESS]
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "made\n"
    return run


def has_ended() -> bool:
    end = time.monotonic() + 20
    while marked():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_is_ended(how: signal.Signals) -> None:
    run = messy()
    assert "sleep" in marked()
    run.send_signal(how)
    assert run.wait(20) != 0
    assert has_ended(), marked()
    assert "hr-mess" not in os.listdir("/sys/class/net")
    for place in (Path("/run/netns"), Path("/run"), Path("/tmp")):
        assert not list(place.glob("hr-mess*"))


def test_the_exit_status_is_the_command_s() -> None:
    command = [sys.executable, apart.__file__, sys.executable, "-c", "raise SystemExit(5)"]
    assert subprocess.run(command, check=False).returncode == 5


def test_two_at_once_do_not_meet() -> None:
    first, second = messy(), messy()  # the second makes things of the same names
    for run in (first, second):
        run.kill()
        run.wait(20)
    assert has_ended(), marked()
