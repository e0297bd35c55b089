# SPDX-License-Identifier: Apache-2.0
"""Keeps the logs of a node within bounds: its own, those of its processes, and consoles of VMs.

Processes hold their log open for years, and append to it. So a log that has grown too long is
copied (`x.log.1`, then `.2`, ...) and cut to nothing where it stands; what is written between the
two is lost, as with logrotate's copytruncate. Logs of processes that have ended stay, the newest of
them; they outlive `headrace down` where the state has a directory of its own.

A console is in a directory that its VNF owns, so it is cut without a copy, and only if it is a
plain file of one name.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger("headrace.node")

COPIES = 3
UNUSED_KEPT = 200
_LOOK_EVERY_S = 10.0
_MOST_READ = 1 << 20


def bound_log(file: Path, limit: int) -> bool:
    """Puts a log that is longer than `limit` octets aside; whether it was."""
    if file.stat().st_size <= limit:
        return False
    for number in range(COPIES, 1, -1):
        with contextlib.suppress(FileNotFoundError):
            _copy(file, number - 1).replace(_copy(file, number))
    shutil.copyfile(file, _copy(file, 1))
    _copy(file, 1).chmod(0o600)
    os.truncate(file, 0)
    return True


def _copy(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")


def tail(file: Path, lines: int, offset: int | None = None) -> tuple[str, int]:
    """The last lines of a log or console, or what came after `offset`, and where it ends.

    A part of at most a mebibyte is read at once. A console is in a VNF's own directory, so only a
    plain file of one name is read; anything else, as one that is not there, is empty. One that was
    cut meanwhile is read from its beginning.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "", 0
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return "", 0
        size = found.st_size
        begin = max(size - _MOST_READ, 0) if offset is None else offset
        begin = begin if begin <= size else 0
        octets = os.pread(descriptor, min(size - begin, _MOST_READ), begin)
    finally:
        os.close(descriptor)
    end = begin + len(octets)
    if offset is None:
        octets = b"".join(octets.splitlines(keepends=True)[-lines:] if lines else [])
    return octets.decode(errors="replace"), end


def bound_console(file: Path, limit: int) -> bool:
    """Empties a console that is longer than `limit` octets; whether it was."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # no machine runs there, or it is no file
    try:
        found = os.fstat(descriptor)
        plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if not plain or found.st_size <= limit:
            return False
        os.ftruncate(descriptor, 0)
        return True
    finally:
        os.close(descriptor)


def forget_oldest(directory: Path, used: Iterable[str], kept: int = UNUSED_KEPT) -> list[Path]:
    """Removes logs of no process of the names `used`, but for the `kept` newest; those removed."""
    in_use = {f"{name}.log" for name in used}
    unused = [file for file in directory.glob("*.log") if file.name not in in_use]
    unused.sort(key=lambda file: file.stat().st_mtime, reverse=True)
    for file in unused[kept:]:
        for part in (file, *(_copy(file, number) for number in range(1, COPIES + 1))):
            part.unlink(missing_ok=True)
    return unused[kept:]


class LogKeeper:
    """Looks at the logs of one node; `run` until cancelled.

    `names` gives the processes whose logs are in use, `consoles` the files of that kind.
    """

    def __init__(
        self,
        directory: Path,
        limit: int,
        names: Callable[[], Iterable[str]],
        consoles: Callable[[], Iterable[Path]],
    ) -> None:
        self._directory = directory
        self._limit = limit
        self._names = names
        self._consoles = consoles

    async def run(self) -> None:
        """Looks every few seconds."""
        while True:
            try:
                names, consoles = list(self._names()), list(self._consoles())
                await asyncio.to_thread(self._look, names, consoles)
            except Exception:  # such as a full disk: it may be free again
                log.exception("the logs could not be kept within bounds")
            await asyncio.sleep(_LOOK_EVERY_S)

    def _look(self, names: list[str], consoles: list[Path]) -> None:
        for file in self._directory.glob("*.log"):
            bound_log(file, self._limit)
        for console in consoles:
            if bound_console(console, self._limit):
                log.warning("console %s was longer than %d octets: emptied", console, self._limit)
        forget_oldest(self._directory, names)
