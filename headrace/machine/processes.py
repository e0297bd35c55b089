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
import select
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.machine.places import log_directory
from headrace.machine.priority import ordinary
from headrace.machine.reaping import reap
from headrace.machine.termination import takes_sigterm

OWNER_VARIABLE = "HEADRACE_OWNER"

UNTIL_PARENT_ENDS = ("/usr/bin/setpriv", "--pdeathsig=KILL", "--")
"""Prefix of a command that is killed when its parent (strictly, the parent thread) ends.

For processes that must not outlive their user, e.g. a generator; util-linux's setpriv(1).
"""


_KILLED_S = 60.0
"""How long the kernel may take with a killed process, whose devices it removes one by one."""


class ProcessError(Exception):
    """A process could not be started or ended; the text says which and why."""


@dataclass(frozen=True)
class ProcessId:
    """A process, told apart from a later one that reuses its pid."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The identity of `pid` now, or None if there is none or only a zombie."""
        found = cls._state_and_start(pid)
        return None if found is None or found[0] in "ZX" else cls(pid, found[1])

    @staticmethod
    def _state_and_start(pid: int) -> tuple[str, int] | None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The command name may hold spaces and brackets; the fields begin after the last one.
        fields = stat[stat.rindex(")") + 2 :].split()
        return fields[0], int(fields[19])

    def is_reused(self) -> bool:
        """Whether the pid is that of no process, or of a later one."""
        found = self._state_and_start(self.pid)
        return found is None or found[1] != self.start_ticks

    def alive(self) -> bool:
        """Whether this process (not a later one with its pid) still runs."""
        return ProcessId.of(self.pid) == self

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal, if the process still runs."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class _Entry:
    """A process that was started, adopted or found, as long as nothing of its name follows it.

    Its descriptor (pidfd_open(2)) tells that it has ended, whoever its parent is, and never means a
    later process of the same pid.
    """

    def __init__(
        self, process: ProcessId, digest: str | None, child: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        self.process, self.digest, self.child = process, digest, child
        self.code: int | None = None
        self.descriptor: int | None = None
        with contextlib.suppress(OSError):
            self.descriptor = os.pidfd_open(process.pid)
        if not process.alive():  # the descriptor may be that of a later one
            self.close()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        if self.descriptor is None:
            return False
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return not poll.poll(0)

    def learn(self, exits: MutableMapping[int, int]) -> int | None:
        """The exit code of a process that has ended, if this one may know it."""
        if self.code is None:
            if self.child is not None:
                self.code = self.child.poll()
            else:
                self.code = reap(self.process.pid, exits)
        return self.code

    def close(self) -> None:
        """Lets go of the process."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class Supervisor:
    """Starts, re-adopts and ends the processes of one node directory.

    All of them are watched by their descriptors in the event loop (`watch`); nothing is polled, and
    /proc is searched once. Between two supervisors of a directory the files decide.
    """

    def __init__(self, rundir: Path) -> None:
        self._rundir = rundir.resolve()
        self._records = self._rundir / "pids"
        self._entries: dict[str, _Entry] = {}
        self._exits: dict[int, int] = {}
        self._searched = False
        self._by_others: set[str] = set()
        self._tell: Callable[[str], None] | None = None

    def log_of(self, name: str) -> Path:
        """The file with the output of the process `name`."""
        return log_directory(self._rundir) / f"{name}.log"

    # Finding.

    def find(self, name: str) -> ProcessId | None:
        """The running process `name`: by its record, else by its environment variable."""
        entry = self._entries.get(name)
        if entry is not None:
            if entry.alive:
                return entry.process
            entry.learn(self._exits)
        recorded = self._recorded(name)
        if recorded is not None:
            process, digest = recorded
            if entry is None or entry.process != process:
                self._enter(name, _Entry(process, digest))
            return process
        if not self._searched or name in self._by_others:
            self._search()
            entry = self._entries.get(name)
            return entry.process if entry is not None and entry.alive else None
        return None

    def _enter(self, name: str, entry: _Entry) -> None:
        before = self._entries.get(name)
        if before is not None:
            self._unwatch(before)
            before.close()
        self._entries[name] = entry
        self._watch_one(name, entry)

    def _recorded(self, name: str) -> tuple[ProcessId, str] | None:
        """The process of the record, if it runs, and its digest."""
        try:
            record = json.loads((self._records / f"{name}.json").read_text())
            process = ProcessId(int(record["pid"]), int(record["start_ticks"]))
        except (OSError, ValueError, KeyError):
            return None
        return (process, str(record.get("digest", ""))) if process.alive() else None

    async def _until_gone(self, name: str) -> None:
        """Waits for a killed process of this name, which holds what it held while threads end."""
        try:
            record = json.loads((self._records / f"{name}.json").read_text())
            process = ProcessId(int(record["pid"]), int(record["start_ticks"]))
        except (OSError, ValueError, KeyError):
            return
        if not process.is_reused():
            await gone(process, _KILLED_S)

    def digest(self, name: str) -> str | None:
        """The digest that `ensure` last recorded for the process `name`."""
        entry = self._entries.get(name)
        if entry is not None and entry.digest is not None:
            return entry.digest
        try:
            record = json.loads((self._records / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return str(record.get("digest", ""))

    def runs(self, name: str, digest: str) -> bool:
        """Whether the process `name` runs and was made from `digest`."""
        return self.find(name) is not None and self.digest(name) == digest

    def names(self) -> list[str]:
        """The names of the processes that this supervisor knows to run."""
        return [name for name, entry in self._entries.items() if entry.alive]

    def all(self) -> dict[str, ProcessId]:
        """Every running process of this directory, by name, recorded or found by variable."""
        self._search()
        if self._records.is_dir():
            for path in self._records.glob("*.json"):
                self.find(path.stem)
        return {name: entry.process for name, entry in self._entries.items() if entry.alive}

    def _search(self) -> None:
        """Enters what runs with our mark under a name of which nothing is known to run."""
        self._searched = True
        for name, process in self._marked():
            entry = self._entries.get(name)
            if entry is None or not entry.alive:
                self._enter(name, _Entry(process, None))

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

    # Watching.

    def watch(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` from now on, in the running event loop, with the name of what has ended."""
        self._tell = tell
        for name, entry in self._entries.items():
            self._watch_one(name, entry)

    def _watch_one(self, name: str, entry: _Entry) -> None:
        if self._tell is None or entry.descriptor is None:
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(entry.descriptor, self._ended, name, entry)

    def _unwatch(self, entry: _Entry) -> None:
        if self._tell is not None and entry.descriptor is not None:
            asyncio.get_running_loop().remove_reader(entry.descriptor)

    def _ended(self, name: str, entry: _Entry) -> None:
        self._unwatch(entry)
        entry.learn(self._exits)
        entry.close()
        if self._tell is not None:
            self._tell(name)

    # Starting and ending.

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
        await self._until_gone(name)
        make_private(self._records)
        make_private(log_directory(self._rundir))
        if cores:
            argv = ["/usr/bin/taskset", "--cpu-list", ",".join(map(str, cores)), *argv]
        if not control:
            argv = ordinary(argv)
        marked = {**({} if bare else os.environ), **(environment or {}), **self._mark(name)}
        with open_log(self.log_of(name)) as log:
            try:
                child = subprocess.Popen(  # noqa: S603, ASYNC220  (returns at the exec, in 1 ms)
                    argv,
                    stdin=subprocess.DEVNULL,
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
        if process is None:
            child.wait()
            raise ProcessError(f"{name} ended at once: {self.last_words(name)}")
        self._enter(name, _Entry(process, digest, child))
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
        self._enter(name, _Entry(process, digest))
        self._by_others.discard(name)
        self._record(name, process, argv, digest)
        return process

    def exit_code(self, name: str) -> int | None:
        """With what the process `name` has ended, if this supervisor was there; else None.

        Negative is a signal. Of a process that another program has started for us it is known if
        this one is the reaper of such processes (`machine/reaping.py`).
        """
        entry = self._entries.get(name)
        return None if entry is None else entry.learn(self._exits)

    def has_process(self, name: str) -> bool:
        """Whether the pid of the process `name` is still in use, be it by a zombie."""
        entry = self._entries.get(name)
        return entry is not None and Path(f"/proc/{entry.process.pid}").exists()

    def known_pids(self) -> frozenset[int]:
        """The pids of all processes whose exit codes this supervisor waits for."""
        return frozenset(entry.process.pid for entry in self._entries.values())

    def note(self, name: str, digest: str) -> None:
        """Notes that the running process `name` is now as one made from `digest` would be."""
        file = self._records / f"{name}.json"
        record = json.loads(file.read_text())
        write_atomically(file, json.dumps({**record, "digest": digest}))
        if name in self._entries:
            self._entries[name].digest = digest

    def mark(self, name: str) -> dict[str, str]:
        """The environment variables by which the process `name` can be found again.

        Whoever else starts a process with them may fail before it is adopted.
        """
        if name not in self._entries:
            self._by_others.add(name)
        return self._mark(name)

    def _mark(self, name: str) -> dict[str, str]:
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
        """Terminates the process `name`: SIGTERM, after `patience_s` SIGKILL; waits for its end.

        What the kernel keeps SIGTERM from is killed at once (`machine/termination.py`).
        """
        process = self.find(name)
        if process is not None:
            process.signal(signal.SIGCONT)  # a paused process cannot act on SIGTERM
            told = takes_sigterm(process.pid)
            if told:
                process.signal(signal.SIGTERM)
            if not told or not await gone(process, patience_s):
                process.signal(signal.SIGKILL)
                if not await gone(process, max(patience_s, _KILLED_S)):
                    raise ProcessError(f"{name} (pid {process.pid}) does not end")
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._unwatch(entry)
            entry.learn(self._exits)
            entry.close()
        self._by_others.discard(name)
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
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        # A killed process is a zombie while threads of it still end, and hold what they held.
        if process.is_reused():
            return True
        loop.add_reader(descriptor, ended.set)
        async with asyncio.timeout(patience_s):
            await ended.wait()
        return True
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


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
