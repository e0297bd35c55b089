# SPDX-License-Identifier: Apache-2.0
"""From windows to rows: fitted costs by role, predicted and measured saturation, both models."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headrace.bench.cost.bed import QUEUES, Way, Window
from headrace.bench.cost.counters import WorkerCounters
from headrace.bench.rows import Row, row, skipped
from headrace.model.least_squares import FitError
from headrace.model.marginal import (
    BURST,
    ROUND_PACKETS,
    MarginalCost,
    Observation,
    fit_marginal,
    fit_polls,
    fit_power_law,
)
from headrace.model.mechanistic.distance import is_same, usual
from headrace.results.bounds import bounded, rate_bound

PREDICTED_GOAL = 0.10
"""Largest relative error of the predicted saturation."""
MAX_LOSS = 0.10
"""Windows with more loss are no points: what is lost before a hop costs nothing there."""


@dataclass(frozen=True)
class Saturation:
    """The highest rate at one size: mean bytes with FCS, packets per second, who limited it.

    `changes`: share of packets whose size is not that of the one before. `turn` is the window's
    number among those of its size in one round; each round has one of each. `refused`: packets that
    VNFs' ports did not take, for each at the sink. `transfer_ns`: how far apart the cores were.
    """

    mix: str
    size: float
    changes: float
    pps: float
    limiter: str
    reason: str
    turn: int = 0
    refused: float = 0.0
    transfer_ns: float | None = None


@dataclass
class Taken:
    """All windows of one switch on one way; with their intended load, by which they are grouped."""

    switch: str
    way: Way
    windows: list[tuple[str, Window]] = field(default_factory=list)
    saturations: list[Saturation] = field(default_factory=list)
    polls: list[tuple[int, float]] = field(default_factory=list)


def observation(group: str, window: Window, worker: WorkerCounters, packets: int) -> Observation:
    """A window as a point of the fit, of the switch's worker or the VNF's."""
    return Observation(
        group=f"{window.mix.name} {group}",
        busy_cycles=worker.busy_cycles,
        idle_cycles=worker.idle_cycles,
        rounds=worker.rounds,
        busy_rounds=worker.busy_rounds,
        bursts=worker.bursts,
        packets=packets,
        octets=packets * window.mix.mean,
        changes=packets * window.mix.changes,
        load=f"{window.mix.name} {group.rpartition(' at ')[2]}",
    )


def usable(window: Window) -> bool:
    """Whether a window can be a point of the switch's: undisturbed, and little lost.

    A VNF that was kept from its core brings packets back later: the switch works as else.
    """
    return window.switch_undisturbed and window.loss <= MAX_LOSS and window.delivered > 0


def in_one_state(taken: Taken) -> Taken:
    """What was measured while the cores were as far apart as in most windows.

    Without a VNF it does not matter, and is not measured.
    """
    distance = usual(window.transfer_ns for _, window in taken.windows)
    if distance is None:
        return taken

    def same(found: float | None) -> bool:
        return found is not None and distance is not None and is_same(found, distance)

    windows = [(group, one) for group, one in taken.windows if same(one.transfer_ns)]
    saturations = [one for one in taken.saturations if same(one.transfer_ns)]
    return replace(taken, windows=windows, saturations=saturations)


def switch_points(taken: Taken) -> list[Observation]:
    """The switch's points."""
    return [
        observation(group, window, window.switch, window.delivered)
        for group, window in taken.windows
        if usable(window)
    ]


def vnf_points(taken: Taken) -> list[Observation]:
    """The VNF's points."""
    return [
        observation(group, window, window.vnf, window.vnf.packets)
        for group, window in taken.windows
        if window.vnf is not None
        and window.vnf.packets > 0
        and usable(window)
        and window.undisturbed
    ]


def predicted(
    cost: MarginalCost, taken: Taken, size: float, hz: float, changes: float = 0.0
) -> float:
    """Packets per second at which this switch has no cycle left on this way."""
    queues = QUEUES[taken.way]
    return cost.saturation_pps(
        size,
        hz,
        bursts=queues / BURST,
        rounds=1 / ROUND_PACKETS[taken.switch],
        changes=changes,
    )


def _cost_rows(prefix: str, cost: MarginalCost) -> Iterator[Row]:
    note = f"{cost.points} points, R2 {cost.r2:.4f}"
    yield row(f"{prefix} per packet", [cost.per_packet], "cycles", note=note)
    yield row(f"{prefix} per byte", [cost.per_byte], "cycles")
    yield row(f"{prefix} per change of size", [cost.per_change], "cycles")
    yield row(f"{prefix} per burst", [cost.per_burst], "cycles")
    yield row(f"{prefix} per busy round", [cost.per_round], "cycles")
    yield row(f"{prefix} per idle round", [cost.round_cycles], "cycles")
    yield row(f"{prefix} held out", [100 * cost.held_out], "% error")


def entries_of(all_taken: Sequence[Taken]) -> dict[str, MarginalCost]:
    """By switch, what a packet costs port to port, where that was measured and could be fitted."""
    found = {}
    for taken in all_taken:
        if taken.way == "p2p":
            with suppress(FitError):
                found[taken.switch] = fit_marginal(switch_points(taken))
    return found


def rows_of(
    way: Way,
    all_taken: Sequence[Taken],
    failed: Mapping[str, str],
    hz: float,
    entries: Mapping[str, MarginalCost],
) -> Iterator[Row]:
    """All rows of one way; a switch that is missing has its reason in `failed`.

    `entries` has by switch what a packet costs port to port: what a VNF's port does not take has
    cost the switch that, and is no part of what it then carries.
    """
    for name, reason in failed.items():
        yield skipped(f"{way} {name} cost", "cycles", reason)
    for whole in all_taken:
        taken = in_one_state(whole)
        prefix = f"{way} {taken.switch}"
        if len(taken.windows) < len(whole.windows):
            note = f"of {len(whole.windows)}: the cores were further apart or nearer in the others"
            yield row(f"{prefix} windows of one state", [float(len(taken.windows))], "", note=note)
        points = switch_points(taken)
        try:
            cost = fit_marginal(points)
        except FitError as error:
            yield skipped(f"{prefix} cost", "cycles", str(error))
            continue
        yield from _cost_rows(f"{prefix} switch", cost)
        if taken.polls:
            polls = fit_polls(taken.polls)
            yield row(f"{prefix} idle round fixed", [polls.fixed], "cycles")
            yield row(f"{prefix} idle round each port", [polls.poll], "cycles")
        yield from _power_rows(prefix, taken, hz)
        if vnf := vnf_points(taken):
            try:
                yield from _cost_rows(f"{prefix} vnf", fit_marginal(vnf))
            except FitError as error:
                yield skipped(f"{prefix} vnf cost", "cycles", str(error))
        yield from _saturation_rows(prefix, taken, cost, hz, entries.get(taken.switch))


def _power_rows(prefix: str, taken: Taken, hz: float) -> Iterator[Row]:
    """Luizelli's form on the same points, a function for each frame size as in the paper."""
    for mix in dict.fromkeys(window.mix.name for _, window in taken.windows):
        some = [(group, window) for group, window in taken.windows if window.mix.name == mix]
        name = f"{prefix} {mix} Luizelli held out"
        try:
            law = fit_power_law(switch_points(replace(taken, windows=some)), hz)
        except FitError as error:
            yield skipped(name, "% error", str(error))
            continue
        note = f"busy share = exp({law.gamma:.2f}) pps^{law.alpha:.2f}, R2 {law.r2:.3f}"
        yield row(name, [100 * law.held_out], "% error", note=note)


def _saturation_rows(
    prefix: str, taken: Taken, cost: MarginalCost, hz: float, entry: MarginalCost | None
) -> Iterator[Row]:
    for mix in dict.fromkeys(one.mix for one in taken.saturations):
        found = [one for one in taken.saturations if one.mix == mix]
        rates = [one.pps / 1e6 for one in found]
        # The fit has the least of as many repeats as there were rounds: so do these.
        chosen = [
            max((one for one in found if one.turn == turn), key=lambda one: one.pps)
            for turn in sorted({one.turn for one in found})
        ]
        best = [one.pps / 1e6 for one in chosen]
        foretold = predicted(cost, taken, found[0].size, hz, found[0].changes) / 1e6
        limiters = dict.fromkeys(one.limiter for one in found)
        measured = statistics.median(rates)
        lower = any(one.limiter in ("generator", "unknown") for one in found)
        value = bounded(f"{measured:.2f} Mpps", rate_bound(lower))
        note = f"{value}, limited by {', '.join(limiters)}: {found[-1].reason}"
        lost = statistics.median(one.refused for one in found)
        if lost > 0:
            note += f"; the VNF's port did not take {lost:.1%} more, whose entry it paid"
            if entry is not None:
                queues, rounds = 1 / BURST, 1 / ROUND_PACKETS[taken.switch]
                each = entry.cycles(
                    found[0].size, bursts=queues, rounds=rounds, changes=found[0].changes
                )
                paid = statistics.median(one.refused for one in chosen) * each
                foretold = hz / (hz / (1e6 * foretold) + paid) / 1e6
        yield row(f"{prefix} {mix} measured saturation", rates, "Mpps", note=note)
        note = "best of each round's windows of one turn, as the fit has the best of each load"
        yield row(f"{prefix} {mix} undisturbed saturation", best, "Mpps", note=note)
        yield row(f"{prefix} {mix} predicted saturation", [foretold], "Mpps")
        error = abs(foretold / statistics.median(best) - 1)
        name = f"{prefix} {mix} prediction error"
        if set(limiters) != {"switch"}:
            reason = f"the switch was not the limit ({', '.join(limiters)})"
            yield skipped(name, "%", reason, goal=100 * PREDICTED_GOAL)
            continue
        yield row(name, [100 * error], "%", goal=100 * PREDICTED_GOAL, better="lower")


def parts_of(cost: MarginalCost, taken: Taken, size: float) -> dict[str, float]:
    """The cycles of a packet at full bursts by what they are for; they add up to `predicted`."""
    return {
        "packet": cost.per_packet,
        "bytes": cost.per_byte * size,
        "bursts": cost.per_burst * QUEUES[taken.way] / BURST,
        "rounds": cost.per_round / ROUND_PACKETS[taken.switch],
    }


def bars(
    all_taken: Sequence[Taken], sizes: Sequence[int] = (64, 1518)
) -> dict[str, dict[str, float]]:
    """Parts by size, way and switch; those that can't be fitted are left out."""
    found = {}
    for size in sizes:
        for taken in map(in_one_state, all_taken):
            try:
                cost = fit_marginal(switch_points(taken))
            except FitError:
                continue
            found[f"{size} B {taken.way} {taken.switch}"] = parts_of(cost, taken, size)
    return found
