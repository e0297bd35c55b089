# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/first-hour.md, one after the other, as a new user types them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.machine.programs import ProgramMissing, find_program
from tests.docs.pages import ROOT, command_lines
from tests.node.conftest import rundir as rundir

MAIN = "from headrace.cli import main; main()"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node"),
]


@pytest.fixture
def environment(rundir: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    values = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HEADRACE_RUNDIR": str(rundir),
        "HEADRACE_STATEDIR": str(tmp_path / "state"),
    }
    yield values
    subprocess.run([sys.executable, "-c", MAIN, "down"], env=values, timeout=110)


def started(line: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    words = shlex.split(line.removesuffix("&"))[1:]
    if words == ["up"]:
        words += ["--rest", "127.0.0.1:0"]  # another node of this machine may have the default
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_every_command_of_the_page(environment: dict[str, str]) -> None:
    try:
        for program in ("headrace-switch", "headrace-vnf", "headrace-traffic"):
            find_program(program)
    except ProgramMissing as error:
        pytest.skip(str(error))
    page = ROOT / "docs/first-hour.md"
    shown = page.read_text().splitlines()
    lines = [line for number, line in command_lines(page) if shown[number - 1].startswith("    ")]
    assert len(lines) > 10
    said: dict[str, str] = {}
    beside: dict[str, subprocess.Popen[str]] = {}
    try:
        for line in lines:
            process = started(line, environment)
            if line.endswith("&"):
                beside[line] = process
                time.sleep(2)  # a person needs longer to type the next one
                continue
            output, errors = process.communicate(timeout=110)
            assert process.returncode == 0, f"{line}: {errors}{output}"
            said[line] = output
        for line, process in beside.items():
            said[line], errors = process.communicate(timeout=110)
            assert process.returncode == 0, f"{line}: {errors}"
    finally:
        for process in beside.values():
            process.kill()
    assert "complete (100 %)" in said["headrace graph status pass"]
    assert "3 sent into p0, 3 arrived at p1" in said["headrace traffic ping p0 p1 --count 3"]
    assert "5 sent into p0, 5 arrived at p1" in said["headrace traffic ping p0 p1"]
    (received,) = (output for line, output in said.items() if "receive" in line)
    assert received.count("198.18.0.1:49152 > 198.19.0.") == 3
    assert received.endswith("20 packets received at p1\n")
