# SPDX-License-Identifier: Apache-2.0
"""Console output of a campaign: a growing table, with progress and remaining time below it.

On a terminal the progress line stays at the bottom; elsewhere (a pipe, CI) each row includes the
remaining time.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from headrace.bench.plan import Block, Clock
from headrace.bench.precision import Answer
from headrace.results import Case, Sample, Skip, Trial
from headrace.results.bounds import bounded, rate_bound
from headrace.results.summary import RATE_METRICS
from headrace.results.units import quantity, rate, seconds

WIDTH = 132
LONG_TRIAL_S = 0.9
"""Of shorter trials of a search only the answer is printed."""


class ConsoleProgress:
    """Prints a campaign's progress; use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock: Clock | None = None
        self._bar = Progress(
            TextColumn("{task.percentage:>3.0f} %"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]} left"),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Prints one line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def planned(self, blocks: Sequence[Block], round_s: float, budget_s: float) -> None:
        """Prints the amount of work and the table's header."""
        cases = sum(len(block.jobs) for block in blocks)
        self.say(
            f"{cases} cases on {len(blocks)} graphs; one round takes about {seconds(round_s)}, "
            f"the budget is {seconds(budget_s)} (headline rows first, then rounds of all)"
        )
        self.say(f"{'left':>6}  {'scenario':<17} {'case':<44} result")
        self._task = self._bar.add_task("", total=1.0, left=seconds(budget_s))

    def working(self, what: str, clock: Clock) -> None:
        """Updates the progress line."""
        self._clock = clock
        if self._task is not None:
            self._bar.update(
                self._task, completed=clock.used, left=seconds(clock.left_s), description=what
            )

    def tried(self, trial: Trial) -> None:
        """Prints a trial that took longer than a search of short ones as a whole."""
        if trial.duration_s < LONG_TRIAL_S or trial.intended_pps is None:
            return
        left = seconds(self._clock.left_s) if self._clock else ""
        missing = trial.lost + trial.unsent
        told = f"{missing} of {trial.sent + trial.unsent} lost or unsent" if missing else "no loss"
        self.say(f"{left:>6}    {rate(trial.intended_pps)} for {trial.duration_s:.1f} s: {told}")

    def sampled(self, case: Case, samples: list[Sample]) -> None:
        """Prints one row of the table."""
        left = seconds(self._clock.left_s) if self._clock else ""
        self.say(f"{left:>6}  {case.scenario:<17} {case.name:<44} {describe(samples)}")

    def narrowing(self, answers: Sequence[Answer], rounds: int) -> None:
        """Prints how far one round of headline rows has come."""
        widths = [answer.width for answer in answers if answer.width is not None]
        widest = f", the widest ±{100 * max(widths):.0f} %" if widths else ""
        narrow = sum(answer.narrow for answer in answers)
        left = seconds(self._clock.left_s) if self._clock else ""
        self.say(
            f"{left:>6}  headline rows, round {rounds}: {narrow} of {len(answers)} as narrow as "
            f"wanted{widest}"
        )

    def answered(self, answers: Sequence[Answer], rounds: int) -> None:
        """Prints how wide the intervals of the headline rows are."""
        narrow = sum(answer.narrow for answer in answers)
        self.say(
            f"headline rows: {narrow} of {len(answers)} as narrow as wanted after {rounds} rounds"
        )
        for answer in answers:
            width = "no interval" if answer.width is None else f"±{100 * answer.width:.1f} %"
            goal = "" if answer.narrow else f" (wanted: ±{100 * answer.wanted:.0f} %)"
            self.say(f"  {answer.name}: {width}{goal}")

    def failed(self, what: str, reason: str) -> None:
        """Prints what failed in this round."""
        self.say(f"{'failed':>6}  {what}: {reason}")

    def skipped(self, skip: Skip) -> None:
        """Prints a row that could not be measured."""
        self.say(f"{'skip':>6}  {skip.scenario:<17} {skip.what:<44} {skip.reason}")


def describe(samples: Sequence[Sample]) -> str:
    """The samples of one step on one line."""
    rates = [sample for sample in samples if sample.metric in RATE_METRICS]
    if rates:
        return "  ".join(
            f"{sample.metric} "
            + (f"at {sample.point} " if sample.point.endswith("loss") else "")
            + bounded(rate(sample.value), rate_bound(sample.generator_limited, sample.relation))
            for sample in rates
        )
    points: dict[str, list[str]] = {}
    for sample in samples:
        if sample.metric in {"latency_p50", "latency_p99"}:
            points.setdefault(sample.point, []).append(
                f"{sample.metric.removeprefix('latency_')} {quantity(sample.value, 'ns')}"
            )
        if sample.metric == "cpu_percent":
            points.setdefault(sample.point, []).append(f"{sample.value:.1f} % of a core")
        if sample.metric == "loss_ratio" and sample.value > 0.005:
            points.setdefault(sample.point, []).append(f"{100 * sample.value:.1f} % lost")
    return "; ".join(
        f"{_point(point)}: {', '.join(texts)}"
        for point, texts in sorted(points.items(), key=lambda item: _order(item[0]))
    )


def _order(point: str) -> float:
    return float(point.split()[0].rstrip("%"))


def _point(point: str) -> str:
    return rate(float(point.split()[0])) if point.endswith(" pps") else point


def make_console(stderr: bool = False) -> Console:
    """A console; without a terminal (a pipe, CI) it is wide enough for the tables."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDTH)
