# SPDX-License-Identifier: Apache-2.0
"""A compared system: one process that can be stopped (SIGSTOP) and continued.

All use the same EAL flags, poll with one worker on `worker_core` and run their other threads on
core 0.
"""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.peers.cases.case import Case
from headrace.machine.patience import patient
from headrace.machine.processes import UNTIL_PARENT_ENDS

TOOL_S = 300.0  # limit for a tool: a system whose rules take longer is skipped


class PeerError(Exception):
    """A system could not be started, set up or read."""


class Missing(PeerError):
    """A system's requirement is missing: its rows are skipped with this reason."""


@dataclass(frozen=True)
class Place:
    """The cores, folders and plugin for the systems."""

    rundir: Path
    flow_dir: Path
    plugin: Path
    worker_core: int
    memory_mb: int


def run(*command: str | Path, stdin: str | None = None) -> str:
    """Runs a tool; returns its output. PeerError with its stderr if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=TOOL_S)  # noqa: S603
    except subprocess.TimeoutExpired as late:
        raise PeerError(f"{' '.join(words)[:200]}: no end after {late.timeout:.0f} s") from late
    if done.returncode != 0:
        raise PeerError(f"{' '.join(words)[:200]}: {done.stderr.strip()[-600:]}")
    return done.stdout


class System(ABC):
    """One system under comparison."""

    name: str

    def __init__(self, place: Place) -> None:
        """Nothing is started."""
        self.place = place
        self.rundir = place.rundir / self.name
        self.rundir.mkdir(parents=True, exist_ok=True)
        self.children: list[subprocess.Popen[bytes]] = []

    def spawn(self, name: str, *command: str | Path) -> subprocess.Popen[bytes]:
        """Starts a child that logs to `<rundir>/<name>.log`; stop() or our exit ends it."""
        environment = dict(
            os.environ,
            HEADRACE_FLOW_DIR=str(self.place.flow_dir),
            OVS_RUNDIR=str(self.rundir),
            OVS_LOGDIR=str(self.rundir),
            OVS_DBDIR=str(self.rundir),
            OVS_SYSCONFDIR=str(self.rundir),
        )
        with (self.rundir / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(  # noqa: S603
                [*UNTIL_PARENT_ENDS, *(str(word) for word in command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        self.children.append(child)
        return child

    def wait_for(self, what: str, path: Path, seconds: float = 30.0) -> None:
        """Waits until a socket appears; PeerError with the end of the log if a child exits."""
        deadline = time.monotonic() + patient(seconds)
        while not path.exists():
            ended = [child for child in self.children if child.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise PeerError(f"{self.name}: {what} did not come up; {self.last_words()}")
            time.sleep(0.02)

    def last_words(self) -> str:
        """The ends of the logs, for error messages."""
        logs = sorted(self.rundir.glob("*.log"))
        return " | ".join(f"{log.name}: {log.read_text(errors='replace')[-300:]}" for log in logs)

    def park(self) -> None:
        """Stops the polling process (SIGSTOP), so that it takes no CPU time."""
        self.polling().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues the polling process."""
        self.polling().send_signal(signal.SIGCONT)

    def polling(self) -> subprocess.Popen[bytes]:
        """The process that polls the core."""
        return self.children[-1]

    def stop(self) -> None:
        """Terminates all children, the last started first."""
        for child in reversed(self.children):
            child.send_signal(signal.SIGCONT)
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children.clear()

    def fill(self, seconds: float) -> None:
        """Waits until caches are filled by the traffic; without caches, for a second."""
        time.sleep(min(seconds, 1.0))

    @abstractmethod
    def load(self, case: Case) -> None:
        """Sets the case up: its source, sink and rules."""

    @abstractmethod
    def sent(self) -> int:
        """Packets that reached the sink so far."""

    def takes(self, case: Case) -> bool:
        """Whether this system supports the case."""
        return True

    def settings(self) -> list[str]:
        """The settings to try for the best one; a single unnamed one if there is no choice."""
        return [""]

    def apply(self, setting: str) -> None:
        """Applies one of settings(); without a choice there is nothing to apply."""
        if setting:
            raise PeerError(f"{self.name} has no setting {setting!r}")
