# SPDX-License-Identifier: Apache-2.0
"""Removes what a test made on the machine, even if the test's process is killed.

A test notes what it is about to make, and forgets it once it has removed it. What is noted is known
to a process of its own, which ends nothing as long as the tests' process lives: it reads notes from
a pipe, and when the pipe's other end is gone it removes what is still noted, the last first.
Processes need no note: tests start them so that they die with them (`daemon.py`); a node's outlive
it by design, and are found by the node's directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _remove_link(name: str) -> None:
    subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)


def _remove_namespace(name: str) -> None:
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _remove_directory(name: str) -> None:
    shutil.rmtree(name, ignore_errors=True)


def _remove_node(name: str) -> None:
    """Ends the node of a directory with all that it has started, wherever it runs or ran."""
    from headrace.node import daemon
    from headrace.node.errors import ConfigError
    from headrace.node.tear_down import tear_down

    directory = Path(name)
    with contextlib.suppress(ConfigError):  # a directory without a node's files
        daemon.down(directory)
    if directory.is_dir():  # a node that had not got as far as its database
        asyncio.run(tear_down(directory))
    _remove_directory(name)


REMOVERS: dict[str, Callable[[str], None]] = {
    "link": _remove_link,
    "namespace": _remove_namespace,
    "directory": _remove_directory,
    "node": _remove_node,
}

_process: subprocess.Popen[str] | None = None


def _tell(line: str) -> None:
    global _process
    if _process is None:
        # A session of its own: what interrupts the tests' process group must not reach it.
        _process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.janitor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
    assert _process.stdin is not None
    _process.stdin.write(line + "\n")
    _process.stdin.flush()


@contextmanager
def removed_at_the_latest(kind: str, name: str | Path) -> Iterator[None]:
    """Within it the test makes and removes `name`, a thing of a kind of REMOVERS.

    If the test's process is killed before it leaves, the thing is removed then.
    """
    assert kind in REMOVERS, kind
    _tell(f"+{kind} {name}")
    yield
    _tell(f"-{kind} {name}")


def main() -> None:
    """Reads notes until their writer is gone, then removes what is still noted."""
    noted: list[tuple[str, str]] = []
    for line in sys.stdin:
        kind, _, name = line[1:].rstrip("\n").partition(" ")
        if line[0] == "+":
            noted.append((kind, name))
        else:
            noted.remove((kind, name))
    for kind, name in reversed(noted):
        REMOVERS[kind](name)


if __name__ == "__main__":
    main()
