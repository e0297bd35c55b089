# SPDX-License-Identifier: Apache-2.0
"""The systemd unit is one that systemd accepts, and starts a command that there is."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.machine.places import DEFAULT_RUNDIR, DEFAULT_STATEDIR
from tests.docs.test_pages import complaints

UNIT = Path(__file__).resolve().parents[2] / "setup/systemd/headrace.service"


def service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read(UNIT)
    return parser["Service"]


def test_systemd_accepts_the_unit() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_starts_a_command_that_there_is() -> None:
    words = service()["ExecStart"].split()
    assert words[:2] == ["/usr/bin/env", "headrace"]
    assert list(complaints(" ".join(words[1:]))) == []


def test_the_directories_of_the_unit_are_the_defaults() -> None:
    assert f"/run/{service()['RuntimeDirectory']}" == str(DEFAULT_RUNDIR)
    assert f"/var/lib/{service()['StateDirectory']}" == str(DEFAULT_STATEDIR)
    # What runs goes on while the service is stopped: it needs its sockets.
    assert service()["RuntimeDirectoryPreserve"] == "yes"
    assert service()["KillMode"] == "process"
