# SPDX-License-Identifier: Apache-2.0
"""What it costs that two processes give one core to each other by sched_yield(2).

Two processes of one session, which is one scheduling group (sched(7), autogroups), yield in turn:
each yield is a system call and a change of the process. Run as a script it is one of the two: it
tells what it counted after a line at its standard input.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress

import psutil

SECONDS = 0.05
CHUNK = 64
LEAST_SWITCHED = 0.9
"""Share of the yields that have to let the other process run."""
PATIENCE_S = 10.0


def context_switch_ns(cpu: int, seconds: float = SECONDS) -> float | None:
    """Nanoseconds of a yield to another process on a core.

    Args:
        cpu: the core, which the caller's processes may use.
        seconds: to measure for.

    Returns:
        None if most yields did not let the other process run, or a process could not be started:
        other programs had the core, or the two are in different scheduling groups.
    """
    command = [sys.executable, "-m", __name__, str(cpu), str(seconds)]
    made = [
        subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    told: list[str] = []
    try:
        for one in made:
            assert one.stdout is not None
            if not one.stdout.readline():
                return None
        for one in made:
            assert one.stdin is not None
            with suppress(BrokenPipeError):
                one.stdin.write("\n")
                one.stdin.flush()
        for one in made:
            assert one.stdout is not None
            told.append(one.stdout.readline())
    finally:
        for one in made:
            one.kill()
            one.wait(timeout=PATIENCE_S)
            for stream in (one.stdin, one.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
    if not all(told):
        return None
    return of_counts([tuple(map(float, line.split())) for line in told], seconds)


def of_counts(told: list[tuple[float, ...]], seconds: float) -> float | None:
    """The nanoseconds of yields, changes of the process and ns of a loop without a yield.

    Args:
        told: these three of each process.
        seconds: for which both ran in turn.
    """
    yields = sum(one[0] for one in told)
    switches = sum(one[1] for one in told)
    if yields <= 0 or switches < LEAST_SWITCHED * yields:
        return None
    loop_ns = sum(one[2] for one in told) / len(told)
    return max(0.0, 1e9 * seconds / yields - loop_ns)


def _switches() -> int:
    return sum(psutil.Process().num_ctx_switches())


def _nothing() -> None:
    """Takes the place of the yield."""


def _serve(cpu: int, seconds: float) -> None:
    os.sched_setaffinity(0, {cpu})
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter_ns()
    for _ in range(CHUNK):
        _nothing()
    loop_ns = (time.perf_counter_ns() - begun) / CHUNK
    yields, before = 0, _switches()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(CHUNK):
            os.sched_yield()
        yields += CHUNK
    print(yields, _switches() - before, loop_ns, flush=True)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]))
