# SPDX-License-Identifier: Apache-2.0
"""How undisturbed a core is: its frequency by dependent multiplications, and gaps of its clock.

* A modular power with a large exponent is a chain of multiplications each of which needs the result
  of the one before, so no unit works ahead and the time of the chain is cycles / frequency. It says
  nothing in hertz, but a core that is throttled or shared with a busy sibling takes longer.
* A loop that only reads the clock sees a gap when something else had the core: another program, an
  interrupt, or the hypervisor, which no counter of the kernel need report.

`Probe` is a process of its own, pinned to one core, that sleeps until it is asked: the interpreter
of the bench has other threads, whose turns would look like gaps.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

GAP_NS = 20_000
"""Shorter gaps are the interpreter's own."""
_BASE, _MODULUS = 0x9E3779B97F4A7C15, (1 << 521) - 1
_EXPONENT = (1 << 256) - 1
MULTIPLICATIONS = 2 * 256
"""Multiplications in one chain, about: a square for each bit of the exponent and a product."""


@dataclass(frozen=True)
class Glimpse:
    """What a probe saw.

    Attributes:
        window_s: seconds that it watched.
        gaps: gaps of the clock of more than 20 µs.
        longest_gap_us: the longest.
        gap_share: share of the window in gaps.
        chain_ns: nanoseconds of the chain of multiplications, the fastest of several.
    """

    window_s: float
    gaps: int
    longest_gap_us: float
    gap_share: float
    chain_ns: int


def watch(window_s: float) -> Glimpse:
    """Watches the calling thread's core for `window_s` seconds."""
    now = time.perf_counter_ns
    begin = last = now()
    end = begin + int(1e9 * window_s)
    gaps = longest = lost = 0
    while last < end:
        moment = now()
        gap = moment - last
        if gap > GAP_NS:
            gaps += 1
            lost += gap
            longest = max(longest, gap)
        last = moment
    chain = min(_chain_ns() for _ in range(5))
    return Glimpse(window_s, gaps, longest / 1e3, lost / max(1, last - begin), chain)


def _chain_ns() -> int:
    begin = time.perf_counter_ns()
    pow(_BASE, _EXPONENT, _MODULUS)
    return time.perf_counter_ns() - begin


class Probe:
    """A process that watches one core when asked.

    Args:
        cpu: the core.
    """

    def __init__(self, cpu: int) -> None:
        self.cpu = cpu
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", __name__, str(cpu)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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

    def watch(self, window_s: float) -> Glimpse | None:
        """What the core looks like for `window_s` seconds; None if the probe has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{window_s}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (BrokenPipeError, ValueError):
            return None
        return Glimpse(**json.loads(line)) if line else None

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=10)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _serve(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    for line in sys.stdin:
        print(json.dumps(asdict(watch(float(line)))), flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
