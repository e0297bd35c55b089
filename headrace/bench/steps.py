# SPDX-License-Identifier: Apache-2.0
"""The steps of a case in one round: the trials of each and the samples computed from them.

A round of a case is a list of steps. A step is the unit that the planner interleaves and times and
after which a campaign can stop, so each is complete by itself: search, overload, latency at
fractions of the PDR, cost at fixed loads.
"""

import random
import statistics
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from headrace.bench.device import Device, TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.measurements.context import Context, StepSkipped
from headrace.bench.measurements.registry import EXTRA, ExtraKind
from headrace.bench.scenario import Measure
from headrace.bench.searching.answer import SearchError
from headrace.bench.searching.goals import GoalSet, goal_set
from headrace.bench.searching.rate_search import MLRSEARCH, OVERLOADS, Limits, search_case
from headrace.model.mechanistic.distance import is_same, usual
from headrace.results import Purpose, Sample, Trial

StepKind = Literal["overload", "search", "latency", "cost"] | ExtraKind

LONG_S = 5.0
"""A trial of a search without loss that is at least as long ends at its first loss."""
KEPT = 200
"""Distances of the cores, of the last trials, of which the usual one is taken."""
NEAR = 0.9
"""A rate above this share of the overload rate has the same limit as the overload rate."""
CSIT_MRR = (10, 1.0)
"""Trials and seconds of each, of FD.io CSIT's MRR."""


@dataclass(frozen=True)
class Timing:
    """Durations of the trials of a campaign, in seconds; of interleaved ones `turn_s`.

    Those at a fixed load have `cost_turn_s`: a worker that is busy for 3 % of 0.1 s has 3 ms, and a
    millisecond that something else took in one of its rounds is a third of that.
    """

    trial_s: float = 0.15
    cost_s: float = 0.4
    turn_s: float = 0.1
    cost_turn_s: float = 0.25
    overhead_s: float = 0.15


@dataclass(frozen=True)
class Step:
    """One kind of work on a case; `interleaved`: one of many short trials in turn with others'."""

    kind: StepKind
    measure: Measure
    interleaved: bool = False

    @property
    def repeats(self) -> int:
        """How often it is taken in a round: short ones cost less than to deploy a graph again."""
        short = self.kind == "overload" and self.measure.overload is True
        return self.measure.repeats if short or self.kind == "cost" else 1

    def expected_s(self, timing: Timing) -> float:
        """Seconds that the step is expected to take before any has been timed."""
        trial = (timing.turn_s if self.interleaved else timing.trial_s) + timing.overhead_s
        if self.kind == "search":
            goals = goals_of(self.measure, timing)
            return goals.expected_s + goals.trials_expected * timing.overhead_s
        if self.kind == "latency":
            return len(self.measure.latency_at) * trial
        if self.kind == "cost":
            one = timing.cost_turn_s if self.interleaved else timing.cost_s
            return len(self.measure.loads_pps) * (one + timing.overhead_s)
        if self.kind in EXTRA:
            return EXTRA[self.kind].expected_s(self.measure, timing.overhead_s)
        if self.measure.overload == "csit":
            count, seconds = CSIT_MRR
            return count * (seconds + timing.overhead_s)
        return trial


def goals_of(measure: Measure, timing: Timing) -> GoalSet:
    """The goals that a measurement searches for."""
    return goal_set(
        measure.search or "quick", measure.loss_ratios, timing.trial_s, measure.search_trial_s
    )


def steps_of(measure: Measure) -> list[Step]:
    """The steps of one round, ordered by their dependencies."""
    kinds: list[StepKind] = []
    if measure.overload or measure.search or measure.extras:
        kinds.append("overload")
    if measure.search:
        kinds.append("search")
    if measure.latency_at:
        kinds.append("latency")
    if measure.loads_pps:
        kinds.append("cost")
    kinds += [kind for kind in EXTRA if kind in measure.extras]
    return [Step(kind, measure) for kind in kinds]


@dataclass
class CaseState:
    """Results of earlier steps of a case that later ones need (packets per second)."""

    overloads: list[float] = field(default_factory=list)
    overload_limited: bool = False
    pdr_pps: float | None = None

    @property
    def overload_pps(self) -> float | None:
        """The most that came back of all overload trials so far."""
        return max(self.overloads, default=None)


Record = Callable[[Trial], None]


def went_backwards(trial: Trial) -> str | None:
    """The first count of a trial that no counter can have grown by, with its value; else None.

    Counters are read twice and subtracted; one of 64 bits that fell grows by nearly 2^64 instead.
    Packets under way at either reading make small differences, which are no such fault.
    """
    for name in ("sent", "received", "busy_cycles", "switch_packets", "vnf_busy_cycles"):
        value = getattr(trial, name)
        if value is not None and not 0 <= value < 1 << 62:
            return f"{name} is {value}"
    return None


class StepRunner:
    """Runs steps on a device and draws samples.

    Args:
        timing: durations.
        seed: order of the fixed loads is drawn from it, anew for each round.
        record: called with every trial, as it ends.
        distances: of the cores in the campaign's trials so far (at most `KEPT`).
    """

    def __init__(
        self,
        timing: Timing,
        seed: int,
        record: Record,
        distances: deque[float] | None = None,
    ) -> None:
        self._timing = timing
        self._seed = seed
        self._record = record
        self._distances = deque[float](maxlen=KEPT) if distances is None else distances

    async def run(
        self, step: Step, device: Device, state: CaseState, round_number: int
    ) -> list[Sample]:
        """Runs one step.

        Raises:
            StepSkipped: the step has no result here.
            DeviceError: a trial could not be run.
        """
        if step.kind in EXTRA:
            context = Context(
                device,
                round_number,
                self._seed,
                self._timing.trial_s,
                partial(self._recorded, device),
                state.overload_pps,
                state.pdr_pps,
            )
            return await EXTRA[step.kind].run(context, step.measure)
        work: dict[StepKind, Callable[[Step, Device, CaseState, int], Awaitable[list[Sample]]]] = {
            "overload": self._overload,
            "search": self._search,
            "latency": self._latency,
            "cost": self._cost,
        }
        return await work[step.kind](step, device, state, round_number)

    async def _trial(
        self,
        device: Device,
        round_number: int,
        purpose: Purpose,
        seconds: float,
        load: float | None,
        interleaved: bool = False,
    ) -> Trial:
        request = TrialRequest(round_number, purpose, seconds, load, interleaved=interleaved)
        return await self._recorded(device, request)

    async def _recorded(self, device: Device, request: TrialRequest) -> Trial:
        trial = await device.trial(request)
        if went_backwards(trial) is not None:
            trial = await device.trial(request)
        if (what := went_backwards(trial)) is not None:
            raise DeviceError(f"{what} twice: a counter went backwards")
        self._record(trial)
        return trial

    def _is_usual(self, trial: Trial, device: Device) -> bool:
        """Whether the cores were as far apart as in most trials so far: others are no samples.

        What a VNF and its switch hand to each other costs up to twice as much in another state
        (model/mechanistic/distance.py), and one switch more of it than the other.
        """
        distance = (trial.detail.get("noise") or {}).get("transfer_ns")
        if distance is None or device.case.vnfs == 0:
            return True
        self._distances.append(distance)
        most = usual(self._distances)
        return most is None or is_same(distance, most)

    async def _overload(
        self, step: Step, device: Device, state: CaseState, number: int
    ) -> list[Sample]:
        measure, turn = step.measure, step.interleaved
        short = self._timing.turn_s if turn else self._timing.trial_s
        count, seconds = CSIT_MRR if measure.overload == "csit" else (1, short)
        trials = [
            await self._trial(device, number, "overload", seconds, None, turn) for _ in range(count)
        ]
        state.overloads += [trial.rx_pps for trial in trials]
        trial = trials[-1]
        state.overload_limited = any(trial.generator_limited for trial in trials)
        if not measure.overload or (turn and not self._is_usual(trial, device)):
            return []
        mrr = statistics.fmean(trial.rx_pps for trial in trials)
        taken = statistics.fmean(trial.taken_share for trial in trials)
        samples = [Sample("mrr", "overload", number, mrr, state.overload_limited)]
        if trial.cycles_per_packet is not None and not trial.approximate:
            cycles = trial.cycles_per_packet
            samples.append(Sample("cycles_per_packet", "overload", number, cycles))
        return [replace(sample, disturbance=taken) for sample in samples]

    async def _search(
        self, step: Step, device: Device, state: CaseState, number: int
    ) -> list[Sample]:
        measure = step.measure
        for _ in range(OVERLOADS - len(state.overloads)):
            trial = await self._trial(device, number, "overload", self._timing.trial_s, None)
            state.overloads.append(trial.rx_pps)
        most = state.overload_pps
        if not most:
            raise StepSkipped(
                "no packets came back under overload, so there is no rate to search for"
            )

        goals = goals_of(measure, self._timing)
        lossless = all(goal.loss_ratio == 0 for goal in goals.goals.values())

        async def run(seconds: float, load: float) -> Trial:
            until_loss = lossless and seconds >= LONG_S
            request = TrialRequest(number, "search", seconds, load, until_loss=until_loss)
            return await self._recorded(device, request)

        limits = Limits(most, device.ceiling_pps)
        try:
            found = await search_case(
                goals, run, limits, self._timing.overhead_s, by=measure.search_by
            )
        except SearchError as error:
            raise StepSkipped(f"search: {error}") from error
        allowed = {key: goals.goals[key].loss_ratio for key in found}
        key = max(found, key=lambda key: allowed[key])
        state.pdr_pps = found[key].pps if found[key].relation != "<" else None
        limited = state.overload_limited
        how = [] if measure.search_by == MLRSEARCH else [measure.search_by]
        return [
            Sample(
                key.metric,
                ", ".join([key.point, *how] if key.point else how),
                number,
                answer.pps,
                limited and answer.pps >= NEAR * most,
                answer.relation,
            )
            for key, answer in found.items()
        ]

    async def _latency(
        self, step: Step, device: Device, state: CaseState, number: int
    ) -> list[Sample]:
        measure = step.measure
        if not state.pdr_pps:
            raise StepSkipped("no PDR was found, so there is no fraction of it to load with")
        samples = []
        # In another order in each round: the first trial after a pause is not like the others.
        fractions = list(measure.latency_at)
        random.Random(self._seed + number).shuffle(fractions)  # noqa: S311
        for fraction in fractions:
            load = fraction * state.pdr_pps
            trial = await self._trial(device, number, "latency", self._timing.trial_s, load)
            point = f"{100 * fraction:.0f}% pdr"
            samples.append(Sample("loss_ratio", point, number, trial.loss_ratio))
            latency = trial.latency_ns
            for name in ("min", "p50", "p90", "p99", "p99_9"):
                if name in latency:
                    samples.append(Sample(f"latency_{name}", point, number, latency[name]))
            if "p99_9" in latency and "min" in latency:
                variation = latency["p99_9"] - latency["min"]
                samples.append(Sample("pdv", point, number, variation))
        return samples

    async def _cost(
        self, step: Step, device: Device, state: CaseState, number: int
    ) -> list[Sample]:
        samples = []
        loads = list(step.measure.loads_pps)
        seconds = self._timing.cost_turn_s if step.interleaved else self._timing.cost_s
        random.Random(self._seed + number).shuffle(loads)  # noqa: S311
        for load in loads:
            if load > device.ceiling_pps:
                continue
            trial = await self._trial(device, number, "cost", seconds, load, step.interleaved)
            point = f"{load:.0f} pps"
            samples.append(Sample("loss_ratio", point, number, trial.loss_ratio))
            if step.interleaved and not self._is_usual(trial, device):
                continue
            drawn = {"cpu_percent": trial.cpu_percent, "cycles_per_packet": trial.cycles_per_packet}
            samples += [
                Sample(name, point, number, value, disturbance=trial.taken_share)
                for name, value in drawn.items()
                if value is not None
            ]
        return samples
