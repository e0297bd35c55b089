# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: best settings, interleaved windows, medians and ratios."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.bench.peers import frames
from headrace.bench.peers.cases import Case
from headrace.bench.peers.systems import PeerError, Place, System


@dataclass(frozen=True)
class Plan:
    """How long and how often to look."""

    repeats: int = 7
    window_s: float = 0.8
    settle_s: float = 0.15
    probe_s: float = 0.5  # per cache setting, when looking for the best


@dataclass(frozen=True)
class Outcome:
    """One system's windows on one case, in packets per second; or why there are none."""

    system: str
    setting: str
    pps: list[float]
    skipped: str | None = None


def measure(system: System, settle_s: float, window_s: float) -> float:
    """Packets per second into the sink over one window; the others are parked.

    A reading's time is taken in the middle of the request that reads it.
    """
    system.resume()
    time.sleep(settle_s)
    first, start = _reading(system)
    time.sleep(window_s)
    last, end = _reading(system)
    system.park()
    return (last - first) / (end - start)


def _reading(system: System) -> tuple[int, float]:
    before = time.monotonic()
    sent = system.sent()
    return sent, (before + time.monotonic()) / 2


def best_setting(system: System, plan: Plan) -> str:
    """The setting with the highest rate: the best of two probes of each."""
    settings = system.settings()
    if len(settings) == 1:
        return settings[0]
    rates: dict[str, float] = {}
    for _ in range(2):
        for setting in settings:
            system.resume()
            system.apply(setting)
            rate = measure(system, 2 * plan.settle_s, plan.probe_s)
            rates[setting] = max(rate, rates.get(setting, 0.0))
    return max(rates, key=lambda setting: rates[setting])


def compare(
    case: Case,
    systems: Iterable[System],
    place: Place,
    plan: Plan,
    say: Callable[[str], None],
) -> list[Outcome]:
    """Runs one case on all systems that can take part, window by window in turn.

    Every system's first window is thrown away. One that can't be set up, or lets nothing through,
    is skipped with the reason.
    """
    path = place.flow_dir / f"{case.device}.frames"
    frames.write(path, case.make_frames())
    ready: list[tuple[System, str]] = []
    outcomes: list[Outcome] = []
    for system in systems:
        if not system.takes(case):
            continue
        try:
            if system.children:
                system.resume()
            system.load(case)
            setting = best_setting(system, plan)
            if setting:
                system.resume()
                system.apply(setting)
            system.park()
            ready.append((system, setting))
        except PeerError as reason:
            outcomes.append(Outcome(system.name, "", [], str(reason)))
            say(f"{case.name}: {system.name} can't be measured: {reason}")
            if system.children:
                system.park()
    # One window that does not count: starting l3fwd takes seconds, in which the others were parked.
    for system, _ in ready:
        measure(system, plan.settle_s, plan.probe_s)
    windows: dict[str, list[float]] = {system.name: [] for system, _ in ready}
    for _ in range(plan.repeats):
        for system, _ in ready:
            windows[system.name].append(measure(system, plan.settle_s, plan.window_s))
    path.unlink()
    for system, setting in ready:
        pps = windows[system.name]
        if min(pps) <= 0:
            outcomes.append(Outcome(system.name, setting, [], "no packets came out"))
            continue
        outcomes.append(Outcome(system.name, setting, pps))
        say(f"{case.name}: {system.name} {statistics.median(pps) / 1e6:.2f} Mpps {setting}")
    return outcomes


def ratios(ours: Outcome, theirs: Outcome) -> list[float]:
    """Pair by pair, in the order of the windows."""
    return [a / b for a, b in zip(ours.pps, theirs.pps, strict=True)]
