# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: best settings, interleaved windows, medians and ratios."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.bench.peers.account import Account, Source, Window
from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.switches import OpenVSwitchLike
from headrace.bench.peers.systems import PeerError, Place, System

TOLD_S = 10.0  # a longer set-up is reported


@dataclass(frozen=True)
class Plan:
    """Duration and number of windows."""

    repeats: int = 7
    window_s: float = 0.8
    settle_s: float = 0.15
    probe_s: float = 0.5  # per cache setting, when looking for the best
    account_s: float = 0.2  # with the source closed before and after


@dataclass(frozen=True)
class Outcome:
    """One system's windows on one case, in packets per second, or the reason for none."""

    system: str
    setting: str
    pps: list[float]
    skipped: str | None = None
    account: Account | None = None  # of an additional window, for losses


def measure(system: System, settle_s: float, window_s: float) -> float:
    """Packets per second into the sink over one window; the other systems are stopped.

    The time of a reading is the middle of its request.
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
    """Runs one case on all systems that support it, window by window in turn.

    The order is A B, B A, so that a drift of the machine favours neither. Every system's first
    window is discarded. A system that can't be set up, or forwards nothing, is skipped with the
    reason.
    """
    source = Source(case, place)
    ready: list[tuple[System, str]] = []
    outcomes: list[Outcome] = []
    for system in systems:
        if not system.takes(case):
            continue
        try:
            ready.append((system, _set_up(system, case, source, plan, say)))
        except PeerError as reason:
            outcomes.append(Outcome(system.name, "", [], str(reason)))
            say(f"{case.name}: {system.name} can't be measured: {reason}")
            if system.children:
                system.park()
    # One discarded window: starting l3fwd takes seconds, in which the others were stopped.
    for system, _ in ready:
        measure(system, plan.settle_s, plan.probe_s)
    windows: dict[str, list[float]] = {system.name: [] for system, _ in ready}
    for turn in range(plan.repeats):
        for system, _ in ready if turn % 2 == 0 else reversed(ready):
            windows[system.name].append(measure(system, plan.settle_s, plan.window_s))
    for system, setting in ready:
        pps = windows[system.name]
        if min(pps) <= 0:
            outcomes.append(Outcome(system.name, setting, [], "no packets came out"))
            continue
        account = _account(system, case, source, plan)
        outcomes.append(Outcome(system.name, setting, pps, account=account))
        say(f"{case.name}: {system.name} {statistics.median(pps) / 1e6:.2f} Mpps {setting}")
    source.remove()
    return outcomes


def _set_up(
    system: System, case: Case, source: Source, plan: Plan, say: Callable[[str], None]
) -> str:
    """Loads the case, with the source closed, and applies the best setting, which is returned."""
    if system.children:
        system.resume()
    source.close()
    start = time.monotonic()
    system.load(case)
    if (taken := time.monotonic() - start) > TOLD_S:
        say(f"{case.name}: {system.name} was set up in {taken:.0f} s")
    source.open()
    if case.filling_s:
        system.fill(case.filling_s)
    setting = best_setting(system, plan)
    if setting:
        system.resume()
        system.apply(setting)
    system.park()
    return setting


def _account(system: System, case: Case, source: Source, plan: Plan) -> Account | None:
    """Accounts for an additional window; None for a system without the counters."""
    if not isinstance(system, OpenVSwitchLike):
        return None
    system.resume()
    account = Window(system, case, source).account(plan.account_s)
    source.open()
    system.park()
    return account


def ratios(ours: Outcome, theirs: Outcome) -> list[float]:
    """The ratios of pairs, in the order of the windows."""
    return [a / b for a, b in zip(ours.pps, theirs.pps, strict=True)]
