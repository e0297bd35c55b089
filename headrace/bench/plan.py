# SPDX-License-Identifier: Apache-2.0
"""The order of a campaign's measurements, and its time budget.

Two consecutive measurements on a shared machine agree better than two that are minutes apart, and
slow phases last seconds. So subjects to be compared are measured alternately: for each point of
traffic they alternate step by step (A/B, and B/A in the next round), and whole rounds are repeated.
Cases of different scenarios that need the same graph share its deployment.

The points of a block come in another order in each round, so that none is always measured first.

Headline rows are measured by many short trials rather than by few long ones: all cases of a
scenario in a block take turns, those of one subject next to each other (each change of subject
stops one switch and continues another), forwards, then backwards. The n-th trials of two cases are
then at most seconds apart, and their ratio is one pair of the round (results/statistics.py).

The plan is an *anytime* one: rounds repeat until the time is used. The remaining time is estimated
from the steps timed so far, so the first round corrects the initial guesses.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from headrace.bench.scenario import Measure, Scenario
from headrace.bench.steps import Step, StepKind, Timing, steps_of
from headrace.results import Case, Shape

SETUP_S = 3.0
"""Seconds that deploying and deleting a graph is expected to take before any has been timed."""


@dataclass(frozen=True)
class Job:
    """A case and what to measure of it.

    Attributes:
        answer: what of it answers the scenario's question, which gets rounds first; None if it is
            not a headline row.
        kinds: the steps that are wanted in this round; None for all.
    """

    case: Case
    measure: Measure
    answer: Measure | None = None
    kinds: frozenset[StepKind] | None = None

    @property
    def headline(self) -> bool:
        """Whether it answers the scenario's question."""
        return self.answer is not None

    @property
    def interleaved(self) -> bool:
        """Whether only its answer is wanted in this round: by short trials in turn with others."""
        return self.measure is self.answer

    @property
    def steps(self) -> list[Step]:
        """The job's steps in this round."""
        found = steps_of(self.measure)
        return [
            replace(step, interleaved=self.interleaved)
            for step in found
            if self.kinds is None or step.kind in self.kinds
        ]


@dataclass(frozen=True)
class Turn:
    """One step of one job."""

    job: Job
    step: Step


@dataclass
class Block:
    """All jobs that need the same graph; it is deployed once for them in each round."""

    shape: Shape
    vnfs: int
    prefixes: int = 0
    jobs: list[Job] = field(default_factory=list)

    def takes(self, case: Case) -> bool:
        """Whether the case's node is free for its VNFs, or has them."""
        return all(
            job.case.deployment == case.deployment
            for job in self.jobs
            if job.case.subject == case.subject
        )

    @property
    def subjects(self) -> list[str]:
        """The subjects that alternate in the block."""
        return list(dict.fromkeys(job.case.deployment for job in self.jobs))

    @property
    def points(self) -> list[list[Job]]:
        """The jobs by point of traffic: those of one point are compared, and stay together.

        Headline rows of one scenario are one point, by subject: their points are compared, too.
        """
        points: dict[tuple[str, str, int], list[Job]] = {}
        for job in self.jobs:
            case = job.case
            point = ("", -1) if job.interleaved else (case.size, case.flows)
            points.setdefault((case.scenario, *point), []).append(job)
        return [sorted(jobs, key=self._subject_order) for jobs in points.values()]

    def _subject_order(self, job: Job) -> int:
        return self.subjects.index(job.case.deployment) if job.interleaved else 0

    def turns(self, round_number: int, shuffled: random.Random | None = None) -> Iterator[Turn]:
        """The block's turns in one round: subjects alternate within each point of traffic.

        `shuffled` draws the order of the points, else it is that of the scenarios.
        """
        points = self.points
        if shuffled is not None:
            shuffled.shuffle(points)
        for jobs in points:
            order = jobs if round_number % 2 == 0 else list(reversed(jobs))
            kinds = dict.fromkeys(step.kind for job in order for step in job.steps)
            for kind in kinds:
                turns = [Turn(job, s) for job in order for s in job.steps if s.kind == kind]
                for number in range(max(turn.step.repeats for turn in turns)):
                    # A B, then B A: a drift within the round favors neither.
                    for turn in turns if number % 2 == 0 else reversed(turns):
                        if number < turn.step.repeats:
                            yield turn


def blocks_of(scenarios: Iterable[Scenario]) -> list[Block]:
    """Groups all cases of the scenarios by the graph that they need, the simplest first.

    A node has one graph at a time, so VNFs of different functions or engines on the same node are
    in different blocks.
    """
    blocks: dict[tuple[Shape, int, int], list[Block]] = {}
    for scenario in scenarios:
        for case in scenario.cases():
            shape: Shape = "chain" if case.vnfs == 1 else case.shape
            key = (shape, case.vnfs, case.prefixes)
            alike = blocks.setdefault(key, [])
            block = next((one for one in alike if one.takes(case)), None)
            if block is None:
                block = Block(*key)
                alike.append(block)
            block.jobs.append(Job(case, scenario.measure, scenario.answer(case)))
    order = sorted(blocks, key=lambda key: (key[1], key[2], key[0]))
    return [block for key in order for block in blocks[key]]


class Clock:
    """Estimates durations from those measured so far, and checks them against the time budget.

    Args:
        budget_s: seconds for all rounds together.
        timing: durations of trials, for first guesses.
        now: a monotonic clock (replaced in tests).
    """

    def __init__(
        self, budget_s: float, timing: Timing, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._budget_s = budget_s
        self._timing = timing
        self.now = now
        self._begin = now()
        self._seen: dict[str, tuple[float, float]] = {}

    def learn(self, step: Step, seconds: float) -> None:
        """Records the duration of a step."""
        self._add(step.kind, seconds, step.expected_s(self._timing))

    def learn_setup(self, vnfs: int, seconds: float) -> None:
        """Records the duration of deploying and deleting a graph with `vnfs` VNFs."""
        self._add(f"setup {vnfs}", seconds, SETUP_S)
        self._add("setup", seconds, SETUP_S)

    def _add(self, kind: str, seconds: float, expected: float) -> None:
        total, guessed = self._seen.get(kind, (0.0, 0.0))
        self._seen[kind] = (total + seconds, guessed + expected)

    def _corrected(self, kind: str, expected: float) -> float:
        """A guess, corrected by how wrong the guesses of its kind have been."""
        total, guessed = self._seen.get(kind, (0.0, 0.0))
        return expected * total / guessed if guessed > 0 else expected

    def step_s(self, step: Step) -> float:
        """Expected seconds of a step."""
        return self._corrected(step.kind, step.expected_s(self._timing))

    def block_s(self, block: Block) -> float:
        """Expected seconds of a block in one round."""
        known = f"setup {block.vnfs}"
        setup = self._corrected(known if known in self._seen else "setup", SETUP_S)
        steps = sum(self.step_s(turn.step) for turn in block.turns(0))
        return setup * len(block.subjects) + steps

    def fitting(self, block: Block) -> Block:
        """The block with as many of its points as the time left is expected to suffice for."""
        points = block.points
        while points:
            kept = replace(block, jobs=[job for point in points for job in point])
            if self.has_time_for(self.block_s(kept)):
                return kept
            points.pop()
        return replace(block, jobs=[])

    def round_s(self, blocks: Iterable[Block]) -> float:
        """Expected seconds of one round over all blocks."""
        return sum(self.block_s(block) for block in blocks)

    @property
    def left_s(self) -> float:
        """Seconds left of the budget (not below 0)."""
        return max(0.0, self._budget_s - (self.now() - self._begin))

    @property
    def used(self) -> float:
        """Share of the budget that is used, 0 to 1."""
        if self._budget_s <= 0:
            return 1.0
        return min(1.0, 1.0 - self.left_s / self._budget_s)

    def has_time_for(self, seconds: float, share: float = 1.0) -> bool:
        """Whether a step of that length would end within that share of the budget."""
        return seconds <= self.left_s - (1.0 - share) * self._budget_s
