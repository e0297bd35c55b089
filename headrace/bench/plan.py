# SPDX-License-Identifier: Apache-2.0
"""The order of a campaign's measurements, and its time budget.

Two consecutive measurements on a shared machine agree better than two that are minutes apart, and
slow phases last seconds. So subjects to be compared are measured alternately: for each point of
traffic they alternate step by step (A/B, and B/A in the next round), and whole rounds are repeated.
Cases of different scenarios that need the same graph share its deployment.

The plan is an *anytime* one: rounds repeat until the time is used. The remaining time is estimated
from the steps timed so far, so the first round corrects the initial guesses.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from headrace.bench.scenario import Measure, Scenario
from headrace.bench.steps import Step, StepKind, Timing, steps_of
from headrace.results import Case, Shape

SETUP_S = 3.0
"""Seconds that deploying and deleting a graph is expected to take before any has been timed."""


@dataclass(frozen=True)
class Job:
    """A case and what to measure of it.

    Attributes:
        headline: whether it answers the scenario's question; such rows get rounds first.
        kinds: the steps that are wanted in this round; None for all.
    """

    case: Case
    measure: Measure
    headline: bool = False
    kinds: frozenset[StepKind] | None = None

    @property
    def steps(self) -> list[Step]:
        """The job's steps in this round."""
        found = steps_of(self.measure)
        return [step for step in found if self.kinds is None or step.kind in self.kinds]


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

    @property
    def subjects(self) -> list[str]:
        """The subjects that alternate in the block."""
        return list(dict.fromkeys(job.case.subject for job in self.jobs))

    def turns(self, round_number: int) -> Iterator[Turn]:
        """The block's turns in one round: subjects alternate within each point of traffic."""
        points: dict[tuple[str, str, int], list[Job]] = {}
        for job in self.jobs:
            key = (job.case.scenario, job.case.size, job.case.flows)
            points.setdefault(key, []).append(job)
        for jobs in points.values():
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
    """Groups all cases of the scenarios by the graph that they need, the simplest first."""
    blocks: dict[tuple[Shape, int, int], Block] = {}
    for scenario in scenarios:
        for case in scenario.cases():
            shape: Shape = "chain" if case.vnfs == 1 else case.shape
            key = (shape, case.vnfs, case.prefixes)
            block = blocks.setdefault(key, Block(*key))
            block.jobs.append(Job(case, scenario.measure, scenario.answers(case)))
    return [blocks[key] for key in sorted(blocks, key=lambda key: (key[1], key[2], key[0]))]


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
        self._now = now
        self._begin = now()
        self._seen: dict[str, tuple[float, int]] = {}

    def learn(self, kind: StepKind | str, seconds: float) -> None:
        """Records the duration of a step (or of the `setup` of a block)."""
        total, count = self._seen.get(kind, (0.0, 0))
        self._seen[kind] = (total + seconds, count + 1)

    def step_s(self, step: Step) -> float:
        """Expected seconds of a step."""
        total, count = self._seen.get(step.kind, (0.0, 0))
        return total / count if count else step.expected_s(self._timing)

    def block_s(self, block: Block) -> float:
        """Expected seconds of a block in one round."""
        total, count = self._seen.get("setup", (0.0, 0))
        setup = total / count if count else SETUP_S
        steps = sum(self.step_s(turn.step) for turn in block.turns(0))
        return setup * len(block.subjects) + steps

    def round_s(self, blocks: Iterable[Block]) -> float:
        """Expected seconds of one round over all blocks."""
        return sum(self.block_s(block) for block in blocks)

    @property
    def left_s(self) -> float:
        """Seconds left of the budget (not below 0)."""
        return max(0.0, self._budget_s - (self._now() - self._begin))

    @property
    def used(self) -> float:
        """Share of the budget that is used, 0 to 1."""
        if self._budget_s <= 0:
            return 1.0
        return min(1.0, 1.0 - self.left_s / self._budget_s)

    def has_time_for(self, seconds: float) -> bool:
        """Whether a step of that length would end within the budget."""
        return seconds <= self.left_s
