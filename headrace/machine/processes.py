# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the node: started once, recorded, found again, terminated by pid.

The switch and the VNFs are separate processes, so that traffic survives a restart of the node. Two
records ensure that none is lost or mistaken for another:

* `<rundir>/pids/<name>.json` holds the pid and the start time (field 22 of /proc/<pid>/stat), which
  together identify a process uniquely: a reused pid has another start time.
* every process carries `HEADRACE_OWNER=<rundir>#<name>` in its environment. If the node is killed
  between fork and writing the record, the next one finds the process by this variable.

Thread safety: a Supervisor belongs to one event loop.
"""

import asyncio
import contextlib
import json
import os
import signal
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.machine.places import log_directory
from headrace.machine.priority import ordinary
from headrace.machine.reaping import reap

OWNER_VARIABLE = "HEADRACE_OWNER"

UNTIL_PARENT_ENDS = ("/usr/bin/setpriv", "--pdeathsig=KILL", "--")
"""Prefix of a command that is killed when its parent (strictly, the parent thread) ends.

For processes that must not outlive their user, e.g. a generator; util-linux's setpriv(1).
"""


class ProcessError(Exception):
    """A process could not be started or ended; the text says which and why."""


@dataclass(frozen=True)
class ProcessId:
    """A process, told apart from a later one that reuses its pid."""

    pid: int
    start_ticks: int

    @staticmethod
    def of(pid: int) -> "ProcessId | None":
        """The identity of `pid` now, or None if there is none or only a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The command name may hold spaces and brackets; the fields begin after the last one.
        fields = stat[stat.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether this process (not a later one with its pid) still runs."""
        return ProcessId.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if the process still runs."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Supervisor:
    """Starts, re-adopts and ends the processes of one node directory."""

    def __init__(self, rundir: Path) -> None:
        self._rundir = rundir.resolve()
        self._records = self._rundir / "pids"
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._exits: dict[int, int] = {}

    def log_of(self, name: str) -> Path:
        """The file with the output of the process `name`."""
        return log_directory(self._rundir) / f"{name}.log"

    def find(self, name: str) -> ProcessId | None:
        """The running process `name`: by its record, else by its environment variable."""
        recorded = self._recorded(name)
        if recorded is not None:
            return recorded
        for owner, process in self._marked():
            if owner == name:
                return process
        return None

    def _recorded(self, name: str) -> ProcessId | None:
        try:
            record = json.loads((self._records / f"{name}.json").read_text())
            process = ProcessId(int(record["pid"]), int(record["start_ticks"]))
        except (OSError, ValueError, KeyError):
            return None
        return process if process.alive() else None

    def digest(self, name: str) -> str | None:
        """The digest that `ensure` last recorded for the process `name`."""
        try:
            record = json.loads((self._records / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return str(record.get("digest", ""))

    def runs(self, name: str, digest: str) -> bool:
        """Whether the process `name` runs and was made from `digest`."""
        return self.find(name) is not None and self.digest(name) == digest

    def all(self) -> dict[str, ProcessId]:
        """Every running process of this directory, by name, recorded or found by variable."""
        found = {name: process for name, process in self._marked()}
        if self._records.is_dir():
            for path in self._records.glob("*.json"):
                process = self._recorded(path.stem)
                if process is not None:
                    found[path.stem] = process
        return found

    def _marked(self) -> Iterator[tuple[str, ProcessId]]:
        mark = f"{OWNER_VARIABLE}={self._rundir}#".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            for variable in environment.split(b"\0"):
                if variable.startswith(mark):
                    process = ProcessId.of(int(entry.name))
                    if process is not None:
                        yield variable[len(mark) :].decode(), process

    async def ensure(
        self,
        name: str,
        argv: Sequence[str],
        *,
        cores: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        digest: str = "",
        inherit: Sequence[int] = (),
        bare: bool = False,
        control: bool = False,
    ) -> tuple[ProcessId, bool]:
        """Makes the process `name` run, pinned to `cores` (all cores if empty).

        It gets the descriptors `inherit`. With `bare` its environment is `environment` and the mark
        alone, else the node's own, too. A `control` program has the node's priority (priority.py).

        A running one with the same `digest` is kept; with another it is replaced.
        Returns the process and whether it was started by this call.

        Raises:
            ProcessError: the program cannot be executed.
        """
        running = self.find(name)
        if running is not None:
            if self.digest(name) == digest:
                return running, False
            await self.end(name)
        make_private(self._records)
        make_private(log_directory(self._rundir))
        if cores:
            argv = ["/usr/bin/taskset", "--cpu-list", ",".join(map(str, cores)), *argv]
        if not control:
            argv = ordinary(argv)
        marked = {**({} if bare else os.environ), **(environment or {}), **self.mark(name)}
        with open_log(self.log_of(name)) as log:
            try:
                child = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=marked,
                    start_new_session=True,
                    pass_fds=inherit,
                    umask=0o077,
                )
            except OSError as error:
                raise ProcessError(f"cannot start {argv[0]}: {error}") from error
        process = ProcessId.of(child.pid)
        self._children[name] = child
        if process is None:
            raise ProcessError(f"{name} ended at once: {self.last_words(name)}")
        self._record(name, process, argv, digest)
        return process, True

    def adopt(self, name: str, pid: int, argv: Sequence[str], digest: str) -> ProcessId:
        """Records a process that another program has started for us, with our `mark`.

        Raises:
            ProcessError: it has ended already.
        """
        process = ProcessId.of(pid)
        if process is None:
            raise ProcessError(f"{name} ended at once: {self.last_words(name)}")
        self._record(name, process, argv, digest)
        return process

    def exit_code(self, name: str) -> int | None:
        """With what the process `name` has ended, if this supervisor was there; else None.

        Negative is a signal. Of a process that another program has started for us it is known if
        this one is the reaper of such processes (`machine/reaping.py`).
        """
        try:
            pid = int(json.loads((self._records / f"{name}.json").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None
        child = self._children.get(name)
        if child is not None and child.pid == pid:
            return child.returncode
        return reap(pid, self._exits)

    def has_process(self, name: str) -> bool:
        """Whether the pid of the process `name` is still in use, be it by a zombie."""
        try:
            pid = int(json.loads((self._records / f"{name}.json").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return False
        return Path(f"/proc/{pid}").exists()

    def recorded_pids(self) -> frozenset[int]:
        """The pids of all processes that were started and not ended by this supervisor's hand."""
        found = set()
        for path in self._records.glob("*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError):
                found.add(int(json.loads(path.read_text())["pid"]))
        return frozenset(found)

    def note(self, name: str, digest: str) -> None:
        """Notes that the running process `name` is now as one made from `digest` would be."""
        file = self._records / f"{name}.json"
        record = json.loads(file.read_text())
        write_atomically(file, json.dumps({**record, "digest": digest}))

    def mark(self, name: str) -> dict[str, str]:
        """The environment variables by which the process `name` can be found again."""
        return {OWNER_VARIABLE: f"{self._rundir}#{name}"}

    def _record(self, name: str, process: ProcessId, argv: Sequence[str], digest: str) -> None:
        record = {
            "pid": process.pid,
            "start_ticks": process.start_ticks,
            "digest": digest,
            "argv": list(argv),
        }
        write_atomically(self._records / f"{name}.json", json.dumps(record))

    async def end(self, name: str, patience_s: float = 5.0) -> None:
        """Terminates the process `name`: SIGTERM, after `patience_s` SIGKILL; waits for its end."""
        process = self.find(name)
        if process is not None:
            process.signal(signal.SIGCONT)  # a paused process cannot act on SIGTERM
            process.signal(signal.SIGTERM)
            if not await gone(process, patience_s):
                process.signal(signal.SIGKILL)
                if not await gone(process, patience_s):
                    raise ProcessError(f"{name} (pid {process.pid}) does not end")
        (self._records / f"{name}.json").unlink(missing_ok=True)

    def last_words(self, name: str, lines: int = 3) -> str:
        """The last lines that the process `name` wrote, for error messages."""
        try:
            text = self.log_of(name).read_text(errors="replace")
        except OSError:
            return "it wrote nothing"
        kept = [line for line in text.splitlines() if line.strip()][-lines:]
        return " | ".join(kept) or "it wrote nothing"


def open_log(path: Path) -> BinaryIO:
    """Opens a log, its user's alone, to be added to."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "ab")


async def gone(process: ProcessId, patience_s: float) -> bool:
    """Waits until `process` has ended; False if it still runs after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while process.alive():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def make_private(directory: Path) -> None:
    """Makes a directory that only its user can list or write to; keeps the right to pass it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(stat.S_IMODE(directory.stat().st_mode) & 0o710 | 0o700)


def write_atomically(path: Path, text: str) -> None:
    """Writes a file so that a reader or a crash sees the old text or the new, never a part.

    It is its user's alone (mode 0600).
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
