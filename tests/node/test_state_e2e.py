# SPDX-License-Identifier: Apache-2.0
"""Graphs through `down`, restore and `up`, an upgrade while they run, and a service manager."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.machine.places import database, remove_database
from headrace.machine.processes import ProcessId
from headrace.node.parts import prefix_of
from tests.node import graphs
from tests.node.earlier import as_of_0_1_0

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from headrace.cli import main; main()"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node"),
]


class Commands:
    """`headrace` for one node, named by the environment as an operator may."""

    def __init__(self, rundir: Path, statedir: Path) -> None:
        self.rundir, self.statedir = rundir, statedir
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HEADRACE_RUNDIR": str(rundir),
            "HEADRACE_STATEDIR": str(statedir),
        }

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self) -> None:
        self("up", "--switch", "linux-bridge", "--rest", "127.0.0.1:0")


@pytest.fixture
def headrace(rundir: Path, tmp_path: Path) -> Iterator[Commands]:
    commands = Commands(rundir, tmp_path / "state")
    yield commands
    commands("down")


def devices(rundir: Path) -> dict[str, int]:
    """The node's interfaces and their indices, which tell new ones from those that were there."""
    prefix, place = prefix_of(rundir), Path("/sys/class/net")
    found = [entry for entry in place.iterdir() if entry.name.startswith(prefix)]
    return {entry.name: int((entry / "ifindex").read_text()) for entry in found}


def test_graphs_and_logs_outlive_down(headrace: Commands, tmp_path: Path) -> None:
    file, backup = tmp_path / "graph.json", tmp_path / "backup"
    file.write_text(json.dumps(graphs.chain("bridge", 1)))
    headrace.up()
    headrace("graph", "deploy", "g", str(file))
    said = json.loads(headrace("node", "backup", str(backup), "--json"))
    assert (said["file"], said["size"]) == (str(backup), backup.stat().st_size)
    headrace("down")
    assert not headrace.rundir.exists()
    assert {path.name for path in headrace.statedir.iterdir()} == {"log"}
    assert (headrace.statedir / "log" / "node.log").exists()
    said = json.loads(headrace("node", "restore", str(backup), "--json"))
    assert said == {"rundir": str(headrace.rundir), "file": str(backup)}
    headrace.up()
    assert "complete (100 %)" in headrace("graph", "status", "g")
    assert json.loads(headrace("graph", "show", "g")) == graphs.chain("bridge", 1)


def test_an_upgrade_leaves_what_runs_as_it_is(headrace: Commands, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graphs.chain("bridge", 1)))
    headrace.up()
    headrace("graph", "deploy", "g", str(file))
    before = devices(headrace.rundir)
    said = json.loads((headrace.rundir / "node.json").read_text())
    old = ProcessId(said["pid"], said["start_ticks"])
    old.signal(signal.SIGKILL)
    # What version 0.1.0 would have left: its schema, in the directory that it had.
    as_of_0_1_0(database(headrace.rundir), headrace.rundir / "earlier")
    remove_database(database(headrace.rundir))
    (headrace.rundir / "state").unlink()
    (headrace.rundir / "earlier").rename(headrace.rundir / "node.sqlite")
    headrace.up()
    assert "complete (100 %)" in headrace("graph", "status", "g")
    assert devices(headrace.rundir) == before
    assert (headrace.statedir / "node.sqlite").exists()
    assert not (headrace.rundir / "node.sqlite").exists()


def test_a_service_manager_is_told_when_the_node_answers(headrace: Commands) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = str(headrace.rundir / "notify")
        manager.bind(address)
        manager.settimeout(60)
        words = ["up", "--foreground", "--switch", "linux-bridge", "--rest", "127.0.0.1:0"]
        node = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words],
            env={**headrace.environment, "NOTIFY_SOCKET": address},
            stderr=subprocess.DEVNULL,
        )
        try:
            assert manager.recv(100) == b"READY=1"
            assert "linux-bridge" in headrace("status")
        finally:
            node.terminate()
            assert node.wait(timeout=30) in (0, -signal.SIGTERM)
