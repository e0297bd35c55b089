# SPDX-License-Identifier: Apache-2.0
"""Runs a campaign: rounds of blocks of turns; every result is stored as soon as it is taken.

Rounds of the headline rows come first, until each is as precise as wanted or `ANSWERS_SHARE` of
the time is used; then everything is measured once, and the rest of the time goes where the
precision is missing. What the time did not suffice for is a skipped row.

`Campaign` does not depend on nodes: a `Bed` deploys a block for a subject and returns a `Device`.
The real bed is `testbed.py`, the simulated one is below. A failure becomes a skipped row with its
reason and never ends the campaign; only cancellation (Ctrl-C) does, and then all results so far are
in the store.
"""

import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from headrace.bench.device import Device
from headrace.bench.errors import DeviceError
from headrace.bench.measurements.context import StepSkipped
from headrace.bench.plan import Block, Clock, Job
from headrace.bench.precision import Answer, Precision
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.bench.steps import KEPT, CaseState, StepKind, StepRunner, Timing, steps_of
from headrace.results import Case, Sample, Skip, Trial
from headrace.results.statistics import PAIRS_FROM
from headrace.results.store import Store

OUT_OF_TIME = "the time budget ended before it was measured; give more --minutes"
OTHER_LOADS = " at other loads than the highest"
ANSWERS_SHARE = 0.7
"""Share of the time budget that the headline rows may use before the others are measured."""


class Bed(Protocol):
    """Where cases are deployed."""

    async def deploy(self, block: Block, subject: str) -> None:
        """Deploys a block's graph for one subject.

        Raises:
            DeviceError: deployment failed; the message is the skipped rows' reason.
        """

    async def device(self, case: Case) -> Device:
        """The device of a case whose block is deployed; all other processes are stopped.

        Raises:
            DeviceError: traffic for the case could not be set up.
        """

    async def withdraw(self, block: Block, subject: str) -> None:
        """Deletes a block's graph of one subject, if it is deployed."""


class Progress(Protocol):
    """Receives the campaign's progress (the console, a test)."""

    def planned(self, blocks: Sequence[Block], round_s: float, budget_s: float) -> None:
        """The work and its expected length."""

    def working(self, what: str, clock: Clock) -> None:
        """The current step."""

    def tried(self, trial: Trial) -> None:
        """One trial of a search has ended."""

    def sampled(self, case: Case, samples: list[Sample]) -> None:
        """New samples of a case."""

    def narrowing(self, answers: Sequence[Answer], rounds: int) -> None:
        """The headline rows have had so many rounds, and may get more."""

    def answered(self, answers: Sequence[Answer], rounds: int) -> None:
        """The headline rows have had their rounds."""

    def failed(self, what: str, reason: str) -> None:
        """A step or a deployment that failed in one round; it may succeed in another."""

    def skipped(self, skip: Skip) -> None:
        """A case that could not be measured."""


class Silent:
    """Ignores all progress."""

    def planned(self, blocks: Sequence[Block], round_s: float, budget_s: float) -> None:
        """Ignored."""

    def working(self, what: str, clock: Clock) -> None:
        """Ignored."""

    def tried(self, trial: Trial) -> None:
        """Ignored."""

    def sampled(self, case: Case, samples: list[Sample]) -> None:
        """Ignored."""

    def narrowing(self, answers: Sequence[Answer], rounds: int) -> None:
        """Ignored."""

    def answered(self, answers: Sequence[Answer], rounds: int) -> None:
        """Ignored."""

    def failed(self, what: str, reason: str) -> None:
        """Ignored."""

    def skipped(self, skip: Skip) -> None:
        """Ignored."""


@dataclass
class SimulatedBed:
    """Simulated devices; a model for each switch."""

    models: dict[str, DeviceModel] = field(default_factory=dict)
    seed: int = 1
    _devices: dict[Case, SimulatedDevice] = field(default_factory=dict)

    async def deploy(self, block: Block, subject: str) -> None:
        """Nothing to deploy."""

    async def device(self, case: Case) -> Device:
        """The case's device; its noise depends on the seed and the case only."""
        if case not in self._devices:
            model = self.models.get(case.switch, DeviceModel())
            self._devices[case] = SimulatedDevice(case, model, seed=self.seed)
        return self._devices[case]

    async def withdraw(self, block: Block, subject: str) -> None:
        """Nothing to withdraw."""


class Campaign:
    """One campaign.

    Args:
        store: where results are stored.
        campaign: id of the campaign in the store.
        bed: where cases are deployed.
        progress: receives the progress.
        timing: durations of trials.
        seed: of all random choices.
    """

    def __init__(
        self,
        store: Store,
        campaign: int,
        bed: Bed,
        progress: Progress,
        timing: Timing,
        seed: int = 1,
    ) -> None:
        self._store = store
        self._campaign = campaign
        self._bed = bed
        self._progress = progress
        self._timing = timing
        self._seed = seed
        self._states: dict[Case, CaseState] = {}
        self._distances = deque[float](maxlen=KEPT)
        self.precision = Precision([])
        self._done: set[tuple[Case, StepKind]] = set()
        self._reasons: dict[tuple[Case, StepKind], str] = {}

    async def run(
        self, blocks: Sequence[Block], clock: Clock, rounds: int = 1000, first: int = 0
    ) -> int:
        """Runs rounds until all rows are as precise as wanted, or the budget or `rounds` is used.

        Headline rows get at most `rounds` of their own; none if that is too few for an interval.
        Whatever ends without one sample gets a skipped row. `first` is the first round's number,
        after `restore_case`. Returns the number of the round after the last.
        """
        self._progress.planned(blocks, clock.round_s(blocks), clock.left_s)
        number = first
        if first == 0:
            self.precision = Precision(blocks)
        if rounds - first >= PAIRS_FROM:
            number = await self._answers(clock, number, rounds)
            rounds += number - first
        while number < rounds:
            wanted = self.precision.next()
            if not wanted or not await self.round(wanted, clock, number):
                break
            # Rates, then searches and latencies of the first round of all are one round.
            number += self.precision.complete
        self.finish(blocks)
        return number

    async def _answers(self, clock: Clock, number: int, rounds: int) -> int:
        """Rounds of the headline rows; returns the number of the round after the last."""
        first = number
        while number < rounds:
            wanted = self.precision.next_answers()
            share = ANSWERS_SHARE if number - first >= PAIRS_FROM else 1.0
            known = number > first  # the first round shows how long one takes
            if not wanted or (known and not clock.has_time_for(clock.round_s(wanted), share)):
                break
            if number % 2 == 1:
                # Graphs that are compared with each other stay neighbors: another way round.
                wanted.reverse()
            await self.round(wanted, clock, number)
            number += 1
            self._progress.narrowing(self.precision.answers(), number - first)
        answers = self.precision.answers()
        if answers:
            self._progress.answered(answers, number - first)
        return number

    def expect(self, blocks: Sequence[Block]) -> None:
        """Says what a resumed campaign measures, before `restore_case`."""
        self.precision = Precision(blocks)

    def restore_case(
        self, case: Case, state: CaseState, drawn: Sequence[tuple[StepKind, Sample]]
    ) -> None:
        """Gives a resumed campaign what it had of a case."""
        self._states[case] = state
        rounds: dict[tuple[StepKind, int], list[Sample]] = {}
        for kind, sample in drawn:
            self._done.add((case, kind))
            rounds.setdefault((kind, sample.round), []).append(sample)
        for (kind, number), samples in rounds.items():
            self.precision.record(case, kind, number, samples)

    def finish(self, blocks: Sequence[Block]) -> None:
        """Adds a skipped row for every case without a sample, and for every step without one."""
        for block in blocks:
            for job in block.jobs:
                self._finish(job)

    def _finish(self, job: Job) -> None:
        case, measure = job.case, job.measure
        kinds = [s.kind for s in steps_of(measure) if s.kind != "overload" or measure.overload]
        drawn = [kind for kind in kinds if (case, kind) in self._done]
        if not drawn:
            self._skip(case, case.name, self._reasons.get((case, kinds[0]), OUT_OF_TIME))
            return
        partly = self.precision.missing(job)
        for kind in kinds:
            if kind in drawn and kind not in partly:
                continue
            what = f"{case.name}: {kind.replace('_', ' ')}{OTHER_LOADS if kind in drawn else ''}"
            self._skip(case, what, self._reasons.get((case, kind), OUT_OF_TIME))

    async def round(self, blocks: Sequence[Block], clock: Clock, number: int) -> bool:
        """One round of what there is time for; returns whether anything was measured."""
        measured = False
        for block in blocks:
            # The first block is tried whatever it is expected to take: nothing has been timed yet.
            fitting = clock.fitting(block) if self._done else block
            if fitting.jobs and clock.left_s > 0:
                await self._block(fitting, clock, number)
                measured = True
        return measured

    async def _block(self, block: Block, clock: Clock, number: int) -> None:
        ready: set[str] = set()
        begun = clock.now()
        name = block.jobs[0].case.graph
        try:
            for subject in block.subjects:
                self._progress.working(f"deploying {name} on {subject}", clock)
                try:
                    await self._bed.deploy(block, subject)
                    ready.add(subject)
                except DeviceError as error:
                    lost = [job for job in block.jobs if job.case.deployment == subject]
                    self._lose(lost, error, number)
                    self._progress.failed(f"deploying {name} on {subject}", str(error))
            setup_s = clock.now() - begun
            await self._turns(block, clock, number, ready)
        finally:
            ending = clock.now()
            for subject in block.subjects:
                await self._bed.withdraw(block, subject)
        setup_s += clock.now() - ending
        clock.learn_setup(block.vnfs, setup_s / len(block.subjects))

    async def _turns(self, block: Block, clock: Clock, number: int, ready: set[str]) -> None:
        order = random.Random(f"{self._seed} {number} {block.shape} {block.vnfs}")  # noqa: S311
        taken: Counter[tuple[Case, StepKind]] = Counter()
        for turn in block.turns(number, order):
            case = turn.job.case
            if case.deployment not in ready:
                continue
            at = taken[case, turn.step.kind]
            taken[case, turn.step.kind] += 1
            if not clock.has_time_for(0.5 * clock.step_s(turn.step)):
                continue
            self._progress.working(f"round {number + 1}: {turn.step.kind} {case.name}", clock)
            case_id = self._store.case_id(self._campaign, case)
            begun = clock.now()

            def record(trial: Trial, case_id: int = case_id) -> None:
                self._store.add_trial(case_id, trial)
                if trial.purpose == "search" and trial.intended_pps is not None:
                    self._progress.tried(trial)

            runner = StepRunner(self._timing, self._seed, record, self._distances)
            try:
                device = await self._bed.device(case)
                state = self._states.setdefault(case, CaseState())
                drawn = await runner.run(turn.step, device, state, number)
            except (DeviceError, StepSkipped) as error:
                self._reasons[(case, turn.step.kind)] = str(error)
                self._progress.failed(f"{case.scenario} {case.name} {turn.step.kind}", str(error))
                self.precision.record(case, turn.step.kind, number, ())
                continue
            samples = [replace(sample, turn=at) for sample in drawn]
            self.precision.record(case, turn.step.kind, number, samples)
            clock.learn(turn.step, clock.now() - begun)
            self._done.add((case, turn.step.kind))
            if samples:
                self._store.add_samples(case_id, samples)
                # Of the many short trials of a headline row, each round is told (`narrowing`).
                if not turn.step.interleaved:
                    self._progress.sampled(case, samples)

    def _lose(self, jobs: Sequence[Job], error: Exception, number: int) -> None:
        for job in jobs:
            for step in job.steps:
                self._reasons[(job.case, step.kind)] = str(error)
                self.precision.record(job.case, step.kind, number, ())

    def _skip(self, case: Case, what: str, reason: str) -> None:
        skip = Skip(case.scenario, what, case.subject, reason)
        self._store.add_skip(self._campaign, skip)
        self._progress.skipped(skip)
