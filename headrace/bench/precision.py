# SPDX-License-Identifier: Apache-2.0
"""Where the next round goes: to rows whose interval is wider than wanted, headline rows first.

The first round measures everything once. Then, in this order, as long as there is time:

1. headline rows (`headline` of a scenario) whose interval is too wide;
2. other rows whose interval is too wide;
3. what has been measured in fewer than `ROUNDS_FROM` rounds, for medians.

A row is as precise as wanted if half its interval is at most the scenario's `width` of the value:
that of the ratio to the same case of the other switch where there is one, else that of the mean.
Rates under overload and cycles count; searches take longest and latencies of a shared machine
never narrow, so they get what is left.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headrace.bench.plan import Block, Job
from headrace.bench.steps import StepKind, steps_of
from headrace.results import Case, Sample
from headrace.results.statistics import (
    PAIRS_FROM,
    geometric_mean,
    ratio_of_pairs,
    student_interval,
)
from headrace.results.summary import OURS, PEER

ROUNDS_FROM = 3
GIVE_UP = 15
"""Rounds after which a row that is still too wide gets no more."""
PRECISE = {"mrr", "cycles_per_packet"}
"""The metrics that rounds are spent on."""

Key = tuple[str, str]


class Precision:
    """The samples of a campaign so far, and which jobs want more.

    Args:
        blocks: all jobs of the campaign.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._values: dict[Case, dict[Key, dict[int, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        self._drawn_by: dict[Key, StepKind] = {}
        self._kinds: dict[tuple[Case, StepKind], set[int]] = defaultdict(set)

    def record(self, case: Case, kind: StepKind, number: int, samples: Iterable[Sample]) -> None:
        """Adds what a step drew in round `number` (nothing, if it failed)."""
        self._kinds[(case, kind)].add(number)
        for sample in samples:
            if sample.value > 0:
                self._drawn_by[(sample.metric, sample.point)] = kind
                values = self._values[case][(sample.metric, sample.point)]
                values[sample.round].append(sample.value)

    def next(self) -> list[Block]:
        """The blocks of the next round, with the jobs and steps that want one; empty if none."""
        for wanted in (self._no_kinds, self._headline_kinds, self._wide_kinds, self._few_kinds):
            found = [reduced for block in self._blocks if (reduced := _reduced(block, wanted)).jobs]
            if found:
                return found
        return []

    def widths(self, case: Case) -> dict[Key, float | None]:
        """Half the interval of each precise row as a share of it; None below three rounds."""
        peer = self._peer(case)
        return {
            key: self._width(rounds, self._values[peer].get(key) if peer else None)
            for key, rounds in self._values[case].items()
            if key[0] in PRECISE
        }

    def _peer(self, case: Case) -> Case | None:
        if case.switch not in (OURS, PEER):
            return None
        other = replace(case, switch=PEER if case.switch == OURS else OURS)
        return other if other in self._values else None

    @staticmethod
    def _width(ours: dict[int, list[float]], theirs: dict[int, list[float]] | None) -> float | None:
        if theirs:
            both = [at for at in ours if at in theirs]
            if len(both) < PAIRS_FROM:
                return None
            return ratio_of_pairs(
                [geometric_mean(ours[at]) for at in both],
                [geometric_mean(theirs[at]) for at in both],
            ).width
        if len(ours) < PAIRS_FROM:
            return None
        low, high = student_interval([math.log(geometric_mean(one)) for one in ours.values()])
        return math.exp((high - low) / 2) - 1

    def _lacking(self, job: Job) -> frozenset[StepKind]:
        """The steps of a job whose precise rows are too wide."""
        kinds = {
            self._drawn_by[key]
            for key, width in self.widths(job.case).items()
            if width is None or width > job.measure.width
        }
        return frozenset(kind for kind in kinds if len(self._kinds[(job.case, kind)]) < GIVE_UP) & {
            step.kind for step in steps_of(job.measure)
        }

    def _no_kinds(self, job: Job) -> frozenset[StepKind]:
        """What a campaign that was interrupted had not measured at all."""
        return frozenset(
            step.kind for step in steps_of(job.measure) if not self._kinds[(job.case, step.kind)]
        )

    def _headline_kinds(self, job: Job) -> frozenset[StepKind]:
        return self._lacking(job) if job.headline else frozenset()

    def _wide_kinds(self, job: Job) -> frozenset[StepKind]:
        return self._lacking(job)

    def _few_kinds(self, job: Job) -> frozenset[StepKind]:
        return frozenset(
            step.kind
            for step in steps_of(job.measure)
            if len(self._kinds[(job.case, step.kind)]) < ROUNDS_FROM
        )


def _reduced(block: Block, wanted: Callable[[Job], frozenset[StepKind]]) -> Block:
    jobs = [replace(job, kinds=kinds) for job in block.jobs if (kinds := wanted(job))]
    return Block(block.shape, block.vnfs, block.prefixes, jobs)
