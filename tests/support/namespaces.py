# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of a test: made, given interfaces and addresses, and removed."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from tests.support.janitor import removed_at_the_latest

_numbers = itertools.count()


class Namespace:
    """A network namespace with a name of its own."""

    def __init__(self) -> None:
        self.name = f"hr{os.getpid() % 100000}{next(_numbers):x}s"
        self._notes = ExitStack()

    def __enter__(self) -> Self:
        self._notes.enter_context(removed_at_the_latest("namespace", self.name))
        _run("ip", "netns", "add", self.name)
        self.run("ip", "link", "set", "lo", "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)
        self._notes.close()

    def take(self, interface: str, address: str = "") -> None:
        """Moves an interface here, with an IP address (`192.0.2.1/24`), and sets it up."""
        _run("ip", "link", "set", interface, "netns", self.name)
        if address:
            self.run("ip", "addr", "add", address, "dev", interface)
        self.run("ip", "link", "set", interface, "up")

    def run(self, *words: str) -> str:
        """Runs a program in the namespace to its end; its output, or fails with what it said."""
        return _run("ip", "netns", "exec", self.name, *words)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a program in the namespace; the caller ends it."""
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def link(self, interface: str) -> dict[str, Any]:
        """What the kernel says of an interface here (`ip -json link`)."""
        found: dict[str, Any] = json.loads(self.run("ip", "-json", "link", "show", interface))[0]
        return found


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}{done.stderr}"
    return done.stdout
