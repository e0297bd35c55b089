# SPDX-License-Identifier: Apache-2.0
"""How long a cache line takes from one core to another: what a hypervisor changes unseen.

Two cores of a virtual machine may lie on one complex of cores with one last-level cache, or on two,
and be moved at any time; the kernel is told nothing of it. What a switch and a VNF on two cores
spend on packets that they hand to each other differs by a factor of two between these states, which
last from seconds to minutes. So windows say how far apart the cores were.

`Transfer` is a process on the one core that answers, by two bytes of shared memory in two lines, to
whoever asks on the other; it sleeps while nobody does. `CoreDistances` has one for each core that
was asked for, and gives a distance that is not older than `FRESH_S`.
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
FRESH_S = 10.0
"""After so long `CoreDistances` measures again."""


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

    @property
    def ended(self) -> bool:
        """Whether the process on the other core is gone; then nothing is measured any more."""
        return self._process.poll() is not None

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


class CoreDistances:
    """Distances between pairs of cores. A measurement takes both cores for some 0.1 ms.

    Thread safety: one thread, whose core is another one for the time of a measurement.
    """

    def __init__(self) -> None:
        self._transfers: dict[int, Transfer] = {}
        self._known: dict[tuple[int, int], tuple[float, float]] = {}

    def between(self, here: int, there: int) -> float | None:
        """Nanoseconds of a cache line there and back; None: not measured, or one core.

        Args:
            here: the core that asks; the calling thread must be allowed to go there.
            there: the core that answers.
        """
        if here == there:
            return None
        known = self._known.get((here, there))
        if known is not None and time.monotonic() - known[0] < FRESH_S:
            return known[1]
        before = os.sched_getaffinity(0)
        try:
            old = self._transfers.get(there)
            if old is not None and old.ended:
                self._transfers.pop(there).close()
            if there not in self._transfers:
                self._transfers[there] = Transfer(there)
            os.sched_setaffinity(0, {here})
            found = self._transfers[there].round_trip_ns()
        except OSError:  # a core that this process may not use, or no process for the other side
            return None
        finally:
            os.sched_setaffinity(0, before)
        if found is not None:
            self._known[here, there] = (time.monotonic(), found)
        return found

    def close(self) -> None:
        """Ends the processes."""
        for transfer in self._transfers.values():
            transfer.close()
        self._transfers.clear()


def _serve(cpu: int, memory: int) -> None:
    os.sched_setaffinity(0, {cpu})
    shared = mmap.mmap(memory, SIZE)
    for _ in sys.stdin:
        print("ready", flush=True)
        _answer(shared, TRIPS)
        print("done", flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
