# SPDX-License-Identifier: Apache-2.0
"""Where the next round goes: to the rows that answer the questions, then to all the others.

`next_answers` gives the rounds of the headline rows (`headline` of a scenario): of each only what
answers the question. A headline row is as precise as wanted if every ratio that it is part of is:
that to the other switch, of many flows to few, of a long chain to a short one
(results/contrasts.py). The campaign asks for these rounds as long as their share of the time lasts.

`next` gives the rounds of everything else, in this order:

1. rates and cycles that have not been measured at all;
2. searches and latencies that have not: they take longest, and on a shared machine hardly narrow;
3. rows whose interval is too wide;
4. what has been measured in fewer than `ROUNDS_FROM` rounds, for medians.

A row is as precise as wanted if half its interval is at most the scenario's `width` of the value:
that of the ratio to the same case of the other switch where there is one, else that of the mean.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.bench.plan import Block, Job
from headrace.bench.scenario import Measure
from headrace.bench.steps import StepKind, steps_of
from headrace.results import Case, Sample
from headrace.results.calm import rounds_of
from headrace.results.contrasts import OURS, PEER, Contrast, contrasts_of
from headrace.results.statistics import (
    PAIRS_FROM,
    Rounds,
    geometric_mean,
    ratio_of_rounds,
    student_interval,
)

ROUNDS_FROM = 3
GIVE_UP = 15
"""Rounds after which a row that is still too wide gets no more."""
ANSWERS_GIVE_UP = 60
"""The same of a headline row."""
PRECISE = {"mrr", "cycles_per_packet"}
"""The metrics that rounds are spent on."""
PRECISE_KINDS: frozenset[StepKind] = frozenset(("overload", "cost"))

Key = tuple[str, str]


def _key_of(answer: Measure) -> Key:
    """The metric and the point of the rows that answer a question."""
    if answer.loads_pps:
        return "cycles_per_packet", f"{max(answer.loads_pps):.0f} pps"
    return "mrr", "overload"


def questions(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The headline ratios of a campaign for its manifest: what the report has to answer."""
    jobs = {job.case: job.answer for block in blocks for job in block.jobs if job.answer}
    found = []
    for contrast in contrasts_of(jobs):
        answer = jobs[contrast.over]
        metric, point = _key_of(answer)
        found.append(
            {
                "by": contrast.by,
                "over": asdict(contrast.over),
                "under": asdict(contrast.under),
                "metric": metric,
                "point": point,
                "width": answer.width,
            }
        )
    return found


@dataclass(frozen=True)
class Answer:
    """A headline ratio, or a mean where there is nothing to compare with, and how sure it is.

    Attributes:
        name: what is compared.
        cases: the cases that it needs.
        width: half its interval as a share of it; None as long as it has none.
        wanted: the width that the scenario wants.
        rounds: rounds in which both cases were tried.
        empty: whether a case gave no value in so many rounds that no more are tried.
    """

    name: str
    cases: tuple[Case, ...]
    width: float | None
    wanted: float
    rounds: int
    empty: bool

    @property
    def narrow(self) -> bool:
        """Whether it is as precise as wanted."""
        return self.width is not None and self.width <= self.wanted

    @property
    def wants_rounds(self) -> bool:
        """Whether further rounds are to be spent on it."""
        return not self.narrow and not self.empty and self.rounds < ANSWERS_GIVE_UP


class Precision:
    """The samples of a campaign so far, and which jobs want more.

    Args:
        blocks: all jobs of the campaign.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._jobs = {job.case: job for block in blocks for job in block.jobs}
        headline = [case for case, job in self._jobs.items() if job.headline]
        self._contrasts = contrasts_of(headline)
        compared = {case for pair in self._contrasts for case in (pair.over, pair.under)}
        self._alone = [case for case in headline if case not in compared]
        self._samples: dict[Case, dict[Key, list[Sample]]] = defaultdict(lambda: defaultdict(list))
        self._drawn_by: dict[Key, StepKind] = {}
        self._whole: dict[tuple[Case, StepKind], set[int]] = defaultdict(set)
        self._tried: dict[Case, set[int]] = defaultdict(set)

    def record(self, case: Case, kind: StepKind, number: int, samples: Iterable[Sample]) -> None:
        """Adds what a step drew in round `number` (nothing, if it failed)."""
        drawn = list(samples)
        self._tried[case].add(number)
        if not self._is_answer(case, kind, drawn):
            self._whole[(case, kind)].add(number)
        for sample in drawn:
            if sample.value > 0:
                self._drawn_by[(sample.metric, sample.point)] = kind
                self._samples[case][(sample.metric, sample.point)].append(sample)

    def _is_answer(self, case: Case, kind: StepKind, drawn: Sequence[Sample]) -> bool:
        """Whether only the answer was measured: the highest of several fixed loads."""
        job = self._jobs.get(case)
        if kind != "cost" or job is None or job.answer is None or len(job.measure.loads_pps) < 2:
            return False
        point = _key_of(job.answer)[1]
        return bool(drawn) and all(sample.point == point for sample in drawn)

    def next_answers(self) -> list[Block]:
        """The next round of headline rows; empty if each is narrow enough or given up."""
        wanted = {case for answer in self.answers() if answer.wants_rounds for case in answer.cases}
        found = []
        for block in self._blocks:
            jobs = [
                Job(job.case, job.answer, job.answer)
                for job in block.jobs
                if job.case in wanted and job.answer is not None
            ]
            if jobs:
                found.append(replace(block, jobs=jobs))
        return found

    def next(self) -> list[Block]:
        """The blocks of the next round, with the jobs and steps that want one; empty if none."""
        for wanted in (self._no_rates, self.missing, self._lacking, self._few_kinds):
            found = [reduced for block in self._blocks if (reduced := _reduced(block, wanted)).jobs]
            if found:
                return found
        return []

    def answers(self) -> list[Answer]:
        """Every headline ratio with its width so far."""
        found = [self._compared(contrast) for contrast in self._contrasts]
        return found + [self._measured(case) for case in self._alone]

    def _values_of(self, case: Case) -> Rounds:
        answer = self._jobs[case].answer
        assert answer is not None
        return rounds_of(self._samples[case].get(_key_of(answer), []))

    def _compared(self, contrast: Contrast) -> Answer:
        over, under = self._values_of(contrast.over), self._values_of(contrast.under)
        tried = self._tried[contrast.over] & self._tried[contrast.under]
        ratio = ratio_of_rounds(over, under)
        return Answer(
            contrast.name,
            (contrast.over, contrast.under),
            None if ratio is None else ratio.width,
            self._jobs[contrast.over].measure.width,
            len(tried),
            len(tried) >= ROUNDS_FROM and ratio is None,
        )

    def _measured(self, case: Case) -> Answer:
        values, tried = self._values_of(case), len(self._tried[case])
        return Answer(
            f"{case.scenario} {case.name}",
            (case,),
            _width_of_mean(values),
            self._jobs[case].measure.width,
            tried,
            tried >= ROUNDS_FROM and not values,
        )

    def widths(self, case: Case) -> dict[Key, float | None]:
        """Half the interval of each precise row as a share of it; None below three rounds."""
        peer = self._peer(case)
        return {
            key: self._width(
                rounds_of(samples), rounds_of(self._samples[peer].get(key, [])) if peer else None
            )
            for key, samples in self._samples[case].items()
            if key[0] in PRECISE
        }

    def _peer(self, case: Case) -> Case | None:
        if case.switch not in (OURS, PEER):
            return None
        other = replace(case, switch=PEER if case.switch == OURS else OURS)
        return other if other in self._samples else None

    @staticmethod
    def _width(ours: Rounds, theirs: Rounds | None) -> float | None:
        if not theirs:
            return _width_of_mean(ours)
        ratio = ratio_of_rounds(ours, theirs)
        return None if ratio is None else ratio.width

    def _lacking(self, job: Job) -> frozenset[StepKind]:
        """The steps of a job whose precise rows are too wide."""
        kinds = {
            self._drawn_by[key]
            for key, width in self.widths(job.case).items()
            if width is None or width > job.measure.width
        }
        return frozenset(kind for kind in kinds if len(self._whole[(job.case, kind)]) < GIVE_UP) & {
            step.kind for step in steps_of(job.measure)
        }

    def missing(self, job: Job) -> frozenset[StepKind]:
        """The steps of a job that have not been tried at all."""
        return frozenset(
            step.kind for step in steps_of(job.measure) if not self._whole[(job.case, step.kind)]
        )

    @property
    def complete(self) -> bool:
        """Whether every step of every job has been tried."""
        return not any(self.missing(job) for job in self._jobs.values())

    def _no_rates(self, job: Job) -> frozenset[StepKind]:
        return self.missing(job) & PRECISE_KINDS

    def _few_kinds(self, job: Job) -> frozenset[StepKind]:
        return frozenset(
            step.kind
            for step in steps_of(job.measure)
            if len(self._whole[(job.case, step.kind)]) < ROUNDS_FROM
        )


def _width_of_mean(rounds: Rounds) -> float | None:
    values = [geometric_mean(list(drawn.values())) for drawn in rounds.values()]
    if len(values) < PAIRS_FROM:
        return None
    low, high = student_interval([math.log(value) for value in values])
    return math.exp((high - low) / 2) - 1


def _reduced(block: Block, wanted: Callable[[Job], frozenset[StepKind]]) -> Block:
    jobs = [replace(job, kinds=kinds) for job in block.jobs if (kinds := wanted(job))]
    return replace(block, jobs=jobs)
