# SPDX-License-Identifier: Apache-2.0
"""From windows to rows: rates, cycles of switch and VNF, and ratios of neighboring windows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.bench.rows import Row, row, skipped

OURS, SHM, OVS, FLOOR = "headrace", "headrace-shm", "ovs-dpdk", "testpmd-vhost"
GOALS = {"64B": 2.0, "1518B": 1.5}
"""Our rate over OVS-DPDK's with the same VNF by vhost-user."""
SHM_GOAL = 3.0
"""Our rate by shared memory over OVS-DPDK's by vhost-user, both with our pass VNF."""
FLOOR_GOAL = 1.15
"""The switch's cycles over what testpmd takes between two vhost-user ports, 64 octets."""


@dataclass(frozen=True)
class Sample:
    """One turn of one subject at one mix of sizes.

    Attributes:
        mpps: rate at the sink with the source unpaced; at the floor, of what circulates.
        switch: cycles that the switch spent on packets, for each at the sink.
        vnf: cycles that the VNF spent on packets, for each.
    """

    mpps: float
    switch: float
    vnf: float


Samples = Mapping[tuple[str, str], Sequence[Sample]]
"""By subject and mix."""


def rows_of(
    kind: str,
    taken: Samples,
    failed: Mapping[str, str],
    subjects: Sequence[str],
    mixes: Sequence[str],
) -> Iterator[Row]:
    """Every row of one kind of VNF; a subject that failed has its reason in `failed`."""
    for mix in mixes:
        for subject in subjects:
            if subject == FLOOR and mix != mixes[0]:
                continue
            name = f"{kind} {mix} {subject}"
            if subject in failed:
                yield skipped(f"{name} rate", "Mpps", failed[subject])
                continue
            samples = taken[subject, mix]
            yield row(f"{name} rate", [one.mpps for one in samples], "Mpps")
            yield row(f"{name} switch", [one.switch for one in samples], "cycles/packet")
            yield row(f"{name} vnf", [one.vnf for one in samples], "cycles/packet")
        for ours, goal in ((OURS, GOALS.get(mix)), (SHM, SHM_GOAL)):
            if ours in subjects:
                yield _ratio(f"{kind} {mix} {ours}/{OVS} rate", ours, mix, taken, failed, goal)
    if FLOOR in subjects:
        yield _over_floor(kind, mixes[0], taken, failed)


def _ratio(
    name: str,
    ours: str,
    mix: str,
    taken: Samples,
    failed: Mapping[str, str],
    goal: float | None,
) -> Row:
    for subject in (ours, OVS):
        if subject in failed:
            return skipped(name, "ratio", f"{subject}: {failed[subject]}", goal=goal)
    pairs = zip(taken[ours, mix], taken[OVS, mix], strict=True)
    return row(name, [mine.mpps / theirs.mpps for mine, theirs in pairs], "ratio", goal=goal)


def _over_floor(kind: str, mix: str, taken: Samples, failed: Mapping[str, str]) -> Row:
    name = f"{kind} {mix} {OURS}/{FLOOR} cycles"
    for subject in (OURS, FLOOR):
        if subject in failed:
            return skipped(name, "ratio", f"{subject}: {failed[subject]}", goal=FLOOR_GOAL)
    pairs = zip(taken[OURS, mix], taken[FLOOR, mix], strict=True)
    ratios = [mine.switch / floor.switch for mine, floor in pairs]
    return row(name, ratios, "ratio", goal=FLOOR_GOAL, better="lower")
