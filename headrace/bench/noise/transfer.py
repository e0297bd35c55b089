# SPDX-License-Identifier: Apache-2.0
"""How long a cache line takes from one core to another: what a hypervisor changes unseen.

Two cores of a virtual machine may lie on one complex of cores with one last-level cache, or on two,
and be moved at any time; the kernel is told nothing of it. What a switch and a VNF on two cores
spend on packets that they hand to each other differs by a factor of two between these states, which
last from seconds to minutes. So windows say how far apart the cores were.

`Transfer` is a process on the one core that answers, by two bytes of shared memory in two lines, to
whoever asks on the other; it sleeps while nobody does.
"""

import mmap
import os
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

TRIPS = 200
SERIES = 5
LINE = 64
SIZE = 4 * LINE
GIVE_UP_S = 0.2


def _answer(shared: mmap.mmap, trips: int) -> None:
    """Answers so many questions, or gives up."""
    end = time.monotonic() + GIVE_UP_S
    for number in range(1, trips + 1):
        wanted, polls = number & 0xFF, 0
        while shared[0] != wanted:
            polls += 1
            if polls & 0xFFF == 0 and time.monotonic() > end:
                return
        shared[2 * LINE] = wanted


def _ask(shared: mmap.mmap, trips: int) -> float | None:
    """Nanoseconds of a round trip, the median of series; None if the other side does not answer."""
    end = time.monotonic() + GIVE_UP_S
    clock = time.perf_counter_ns
    series = trips // SERIES
    spent = []
    begun = clock()
    for number in range(1, trips + 1):
        wanted, polls = number & 0xFF, 0
        shared[0] = wanted
        while shared[2 * LINE] != wanted:
            polls += 1
            if polls & 0xFFF == 0 and time.monotonic() > end:
                return None
        if number % series == 0:
            now = clock()
            spent.append((now - begun) / series)
            begun = now
    return statistics.median(spent)


class Transfer:
    """Measures round trips between the caller's core and another one.

    Args:
        cpu: the other core.
    """

    def __init__(self, cpu: int) -> None:
        self._memory = os.memfd_create("headrace-transfer")
        os.ftruncate(self._memory, SIZE)
        self._shared = mmap.mmap(self._memory, SIZE)
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", __name__, str(cpu), str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._memory],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def round_trip_ns(self) -> float | None:
        """Nanoseconds there and back, the interpreters' polls included; None: not measured."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._shared[0] = self._shared[2 * LINE] = 0
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
            if not self._process.stdout.readline():
                return None
            found = _ask(self._shared, TRIPS)
            self._process.stdout.readline()
        except BrokenPipeError:
            return None
        return found

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it has ended already
                self._process.stdin.close()
        self._process.wait(timeout=10)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._shared.close()
        os.close(self._memory)


def _serve(cpu: int, memory: int) -> None:
    os.sched_setaffinity(0, {cpu})
    shared = mmap.mmap(memory, SIZE)
    for _ in sys.stdin:
        print("ready", flush=True)
        _answer(shared, TRIPS)
        print("done", flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
