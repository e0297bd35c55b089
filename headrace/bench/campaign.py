# SPDX-License-Identifier: Apache-2.0
"""Runs a campaign: rounds of blocks of turns; every result is stored as soon as it is taken.

`Campaign` does not depend on nodes: a `Bed` deploys a block for a subject and returns a `Device`.
The real bed is `testbed.py`, the simulated one is below. A failure becomes a skipped row with its
reason and never ends the campaign; only cancellation (Ctrl-C) does, and then all results so far are
in the store.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.bench.device import Device
from headrace.bench.errors import DeviceError
from headrace.bench.measurements.context import StepSkipped
from headrace.bench.plan import Block, Clock, Job
from headrace.bench.precision import Precision
from headrace.bench.simulated import DeviceModel, SimulatedDevice
from headrace.bench.steps import CaseState, StepKind, StepRunner, Timing
from headrace.results import Case, Sample, Skip, Trial
from headrace.results.store import Store

OUT_OF_TIME = "the time budget ended before it was measured; give more --minutes"


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

    def sampled(self, case: Case, samples: list[Sample]) -> None:
        """New samples of a case."""

    def skipped(self, skip: Skip) -> None:
        """A case that could not be measured."""


class Silent:
    """Ignores all progress."""

    def planned(self, blocks: Sequence[Block], round_s: float, budget_s: float) -> None:
        """Ignored."""

    def working(self, what: str, clock: Clock) -> None:
        """Ignored."""

    def sampled(self, case: Case, samples: list[Sample]) -> None:
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
        self.precision = Precision([])
        self._done: set[Case] = set()
        self._reasons: dict[Case, str] = {}

    async def run(
        self, blocks: Sequence[Block], clock: Clock, rounds: int = 1000, first: int = 0
    ) -> int:
        """Runs rounds until all rows are as precise as wanted, or the budget or `rounds` is used.

        Every case that ends without one sample gets a skipped row. `first` is the first round's
        number, after `restore_case`. Returns the number of the round after the last.
        """
        self._progress.planned(blocks, clock.round_s(blocks), clock.left_s)
        number, wanted = first, list(blocks)
        if first == 0:
            self.precision = Precision(blocks)
        else:
            wanted = self.precision.next()
        while number < rounds and wanted:
            ended = await self.round(wanted, clock, number)
            number += 1
            wanted = self.precision.next()
            if ended or not any(clock.has_time_for(clock.block_s(block)) for block in wanted):
                break
        self.finish(blocks)
        return number

    def expect(self, blocks: Sequence[Block]) -> None:
        """Says what a resumed campaign measures, before `restore_case`."""
        self.precision = Precision(blocks)

    def restore_case(
        self, case: Case, state: CaseState, drawn: Sequence[tuple[StepKind, Sample]]
    ) -> None:
        """Gives a resumed campaign what it had of a case."""
        self._states[case] = state
        for kind, sample in drawn:
            self._done.add(case)
            self.precision.record(case, kind, sample.round, [sample])

    def finish(self, blocks: Sequence[Block]) -> None:
        """Adds a skipped row for every case without a sample."""
        for block in blocks:
            for job in block.jobs:
                if job.case not in self._done:
                    reason = self._reasons.get(job.case, OUT_OF_TIME)
                    self._skip(job.case, reason)

    async def round(self, blocks: Sequence[Block], clock: Clock, number: int) -> bool:
        """One round; returns whether the time budget ended it."""
        for block in blocks:
            if number > 0 and not clock.has_time_for(clock.block_s(block)):
                continue
            if clock.left_s <= 0:
                return True
            await self._block(block, clock, number)
        return False

    async def _block(self, block: Block, clock: Clock, number: int) -> None:
        ready: set[str] = set()
        begun = time.monotonic()
        name = block.jobs[0].case.graph
        try:
            for subject in block.subjects:
                self._progress.working(f"deploying {name} on {subject}", clock)
                try:
                    await self._bed.deploy(block, subject)
                    ready.add(subject)
                except DeviceError as error:
                    lost = [job for job in block.jobs if job.case.subject == subject]
                    self._lose(lost, error)
                    for job in lost:
                        for step in job.steps:
                            self.precision.record(job.case, step.kind, number, ())
            setup_s = time.monotonic() - begun
            await self._turns(block, clock, number, ready)
        finally:
            ending = time.monotonic()
            for subject in block.subjects:
                await self._bed.withdraw(block, subject)
        setup_s += time.monotonic() - ending
        clock.learn("setup", setup_s / len(block.subjects))

    async def _turns(self, block: Block, clock: Clock, number: int, ready: set[str]) -> None:
        for turn in block.turns(number):
            case = turn.job.case
            if case.subject not in ready:
                continue
            if not clock.has_time_for(0.5 * clock.step_s(turn.step)):
                self._reasons.setdefault(case, OUT_OF_TIME)
                continue
            self._progress.working(f"round {number + 1}: {turn.step.kind} {case.name}", clock)
            case_id = self._store.case_id(self._campaign, case)
            begun = time.monotonic()

            def record(trial: Trial, case_id: int = case_id) -> None:
                self._store.add_trial(case_id, trial)

            runner = StepRunner(self._timing, self._seed, record)
            try:
                device = await self._bed.device(case)
                state = self._states.setdefault(case, CaseState())
                samples = await runner.run(turn.step, device, state, number)
            except (DeviceError, StepSkipped) as error:
                self._lose([turn.job], error)
                self.precision.record(case, turn.step.kind, number, ())
                continue
            self.precision.record(case, turn.step.kind, number, samples)
            clock.learn(turn.step.kind, time.monotonic() - begun)
            if samples:
                self._store.add_samples(case_id, samples)
                self._done.add(case)
                self._progress.sampled(case, samples)

    def _lose(self, jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            self._reasons[job.case] = str(error)

    def _skip(self, case: Case, reason: str) -> None:
        skip = Skip(case.scenario, case.name, case.subject, reason)
        self._store.add_skip(self._campaign, skip)
        self._progress.skipped(skip)
