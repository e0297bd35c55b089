# SPDX-License-Identifier: Apache-2.0
"""What a killed test leaves is removed all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.bench.owned import owned
from tests.support.janitor import ROOT

MAKES_A_LINK = """
import sys, time
from tests.support.veth import VethPair
with VethPair() as pair:
    print(pair.near, flush=True)
    time.sleep(60)
"""
STARTS_A_NODE = """
import asyncio, sys, time
from pathlib import Path
from headrace.node.config import from_dict
from headrace.node.node import Node
from tests.support.janitor import removed_at_the_latest
async def main(directory):
    node = Node(from_dict({"switch": "headrace", "hugepages": "off"}), directory)
    await node.start()
    print("started", flush=True)
    time.sleep(60)
with removed_at_the_latest("node", sys.argv[1]):
    asyncio.run(main(Path(sys.argv[1])))
"""
MAKES_DIRECTORIES = """
import sys, time
from pathlib import Path
from tests.support.janitor import removed_at_the_latest
noted, forgotten = Path(sys.argv[1]), Path(sys.argv[2])
with removed_at_the_latest("directory", noted):
    noted.mkdir()
    with removed_at_the_latest("directory", forgotten):
        forgotten.mkdir()
    print("made", flush=True)
    time.sleep(60)
"""


def said_and_killed(program: str, *arguments: str) -> str:
    """Runs the program until it says a line, kills it; the line."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline().strip()
        child.send_signal(signal.SIGKILL)
    assert line
    return line


def comes_true(condition: Callable[[], bool], timeout_s: float = 30) -> bool:
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes an interface")
def test_interfaces_of_a_killed_test_go() -> None:
    name = said_and_killed(MAKES_A_LINK)
    assert comes_true(lambda: not Path(f"/sys/class/net/{name}").exists())


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node")
def test_nodes_of_a_killed_test_go_with_all_that_they_started() -> None:
    directory = Path(tempfile.mkdtemp(prefix="hr-"))
    assert said_and_killed(STARTS_A_NODE, str(directory)) == "started"
    assert comes_true(lambda: not directory.exists())
    assert list(owned(directory)) == []


def test_what_is_forgotten_stays(tmp_path: Path) -> None:
    noted, forgotten = tmp_path / "noted", tmp_path / "forgotten"
    assert said_and_killed(MAKES_DIRECTORIES, str(noted), str(forgotten)) == "made"
    # The first that was noted is the last to go.
    assert comes_true(lambda: not noted.exists())
    assert forgotten.is_dir()
