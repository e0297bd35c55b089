# SPDX-License-Identifier: Apache-2.0
"""Computes rows from windows: cycles and rates by length, and the growth of cycles with it."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.bench.rows import Row, row, skipped
from headrace.results.statistics import student_interval

THROUGH, DIRECT, OVS = "headrace", "headrace-direct", "ovs-dpdk"
SUBJECTS = (THROUGH, DIRECT, OVS)
KEPT = 0.9
GROWTH = 0.05
"""Upper bound of the cost of an additional VNF, as a share of the shortest chain's cycles."""


@dataclass(frozen=True)
class Sample:
    """One round of one subject at one length.

    Attributes:
        cycles: busy cycles of the switch's worker for each packet at the sink, at the fixed load.
        crossings: packets received by the worker for each packet at the sink.
        mpps: rate at the sink with the source unpaced.
    """

    cycles: float
    crossings: float
    mpps: float


Samples = Mapping[tuple[str, int], Sequence[Sample]]


def slope(lengths: Sequence[int], values: Sequence[float]) -> float:
    """The least-squares slope per additional VNF. Needs two different lengths."""
    return statistics.linear_regression(lengths, values).slope


def oversubscribed(cores: int, length: int) -> str | None:
    """The reason if there are fewer cores than programs in a chain, or None."""
    wanted = length + 3
    if cores >= wanted:
        return None
    return (
        f"oversubscribed: {cores} cores for {wanted} programs (switch, source, sink, {length} "
        f"VNFs); all but the switch share core 0"
    )


def rows_of(
    taken: Samples, failed: Mapping[str, str], lengths: Sequence[int], cores: int
) -> Iterator[Row]:
    """Every row of the command; a subject that failed has its reason in `failed`."""
    for length in lengths:
        for subject in SUBJECTS:
            name = f"{subject} {length} VNF{'s' * (length > 1)}"
            if subject in failed:
                yield skipped(f"{name} cycles", "cycles/packet", failed[subject])
                yield skipped(f"{name} rate", "Mpps", failed[subject])
                continue
            samples = taken[subject, length]
            crossings = statistics.median(sample.crossings for sample in samples)
            note = f"{crossings:.1f} times at the switch"
            cycles = [sample.cycles for sample in samples]
            yield row(f"{name} cycles", cycles, "cycles/packet", note=note)
            rates = [sample.mpps for sample in samples]
            yield row(f"{name} rate", rates, "Mpps", note=oversubscribed(cores, length))
    if len(lengths) > 1:
        for subject in SUBJECTS:
            yield _slope(subject, taken, failed, lengths)
        yield _kept(taken, failed, lengths, cores)


def _slope(subject: str, taken: Samples, failed: Mapping[str, str], lengths: Sequence[int]) -> Row:
    """The growth of the cycles, which should be none with direct links.

    Met if the rounds' interval shows that an additional VNF costs less than GROWTH of the shortest
    chain: noise widens the interval, so it can't make the goal met.
    """
    name = f"{subject} cycles for each VNF more"
    unit = "cycles/packet"
    goal = 0.0 if subject == DIRECT else None
    if subject in failed:
        return skipped(name, unit, failed[subject], goal=goal)
    rounds = zip(*(taken[subject, length] for length in lengths), strict=True)
    slopes = [slope(lengths, [sample.cycles for sample in one]) for one in rounds]
    made = row(name, slopes, unit, goal=goal, better="lower")
    if len(slopes) < 2:
        return made.model_copy(update={"note": "one round: no interval"})
    low, high = student_interval(slopes)
    update: dict[str, object] = {"note": f"95 % interval {low:.3g} to {high:.3g}"}
    if goal is not None:
        shortest = statistics.median(sample.cycles for sample in taken[subject, lengths[0]])
        update["met"] = high <= GROWTH * shortest
        if low <= goal and not update["met"]:
            update["note"] = f"{update['note']}: the rounds differ too much to tell it from none"
    return made.model_copy(update=update)


def _kept(taken: Samples, failed: Mapping[str, str], lengths: Sequence[int], cores: int) -> Row:
    """The rate of the longest chain relative to the shortest, with direct links."""
    name = f"{DIRECT} rate at {lengths[-1]} / at {lengths[0]}"
    if DIRECT in failed:
        return skipped(name, "ratio", failed[DIRECT], goal=KEPT)
    shared = oversubscribed(cores, lengths[-1])
    if shared is not None:
        # Not a property of the links: every additional VNF takes a share of the one core.
        return skipped(name, "ratio", shared).model_copy(update={"goal": KEPT})
    ends = zip(taken[DIRECT, lengths[-1]], taken[DIRECT, lengths[0]], strict=True)
    return row(name, [long.mpps / short.mpps for long, short in ends], "ratio", goal=KEPT)
