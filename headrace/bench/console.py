# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a campaign runs: a table that grows, progress and time left below it.

On a terminal the progress line stays at the bottom; elsewhere (a pipe, CI) each row carries the
time left itself, so that a log reads the same way.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from headrace.bench.plan import Block, Clock
from headrace.results import UNITS, Case, Sample, Skip
from headrace.store import Store
from headrace.summary import RATE_METRICS, Row, ratios_of, rows_of
from headrace.units import quantity, rate, seconds

SHOWN = ("mrr", "ndr", "pdr", "latency_p50", "latency_p99", "cpu_percent", "loss_ratio")


class ConsoleProgress:
    """Prints a campaign as it goes; use as a context manager."""

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
        """A line of its own."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def planned(self, blocks: Sequence[Block], round_s: float, budget_s: float) -> None:
        """Says how much there is to do, and prints the table's head."""
        cases = sum(len(block.jobs) for block in blocks)
        self.say(
            f"{cases} cases on {len(blocks)} graphs; one round takes about {seconds(round_s)}, "
            f"the budget is {seconds(budget_s)} (rounds repeat until it is used)"
        )
        self.say(f"{'left':>6}  {'scenario':<13} {'case':<44} result")
        self._task = self._bar.add_task("", total=1.0, left=seconds(budget_s))

    def working(self, what: str, clock: Clock) -> None:
        """Moves the progress line."""
        self._clock = clock
        if self._task is not None:
            self._bar.update(
                self._task, completed=clock.used, left=seconds(clock.left_s), description=what
            )

    def sampled(self, case: Case, samples: list[Sample]) -> None:
        """One row of the table as it goes."""
        left = seconds(self._clock.left_s) if self._clock else ""
        self.say(f"{left:>6}  {case.scenario:<13} {case.name:<44} {describe(samples)}")

    def skipped(self, skip: Skip) -> None:
        """A row that could not be measured."""
        self.say(f"{'skip':>6}  {skip.scenario:<13} {skip.what:<44} {skip.reason}")


def describe(samples: Sequence[Sample]) -> str:
    """The samples of one step on one line."""
    rates = [sample for sample in samples if sample.metric in RATE_METRICS]
    if rates:
        return "  ".join(
            f"{sample.metric} {rate(sample.value)}" + ("*" if sample.generator_limited else "")
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


def _interval(row: Row) -> str:
    unit = UNITS.get(row.metric, "")
    if row.summary.low is not None and row.summary.high is not None:
        return f"{quantity(row.summary.low, unit)} .. {quantity(row.summary.high, unit)}"
    if row.summary.count > 1:
        low, high = quantity(row.summary.minimum, unit), quantity(row.summary.maximum, unit)
        return f"({low} .. {high})"
    return ""


def result_table(store: Store, campaign: int) -> Table:
    """Medians and intervals of all cases."""
    table = Table(title="Medians with 95 % intervals (in brackets: range of fewer than 3 samples)")
    for name in ("scenario", "case", "metric"):
        table.add_column(name, overflow="fold")
    for name in ("median", "interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = ""
    for row in rows_of(store, campaign):
        if row.metric not in SHOWN:
            continue
        if previous and row.case.scenario != previous:
            table.add_section()
        at = f" at {_point(row.point)}" if row.point and row.metric != "mrr" else ""
        table.add_row(
            row.case.scenario if row.case.scenario != previous else "",
            row.case.name,
            f"{row.metric}{at}",
            quantity(row.summary.median, row.unit) + ("*" if row.generator_limited else ""),
            _interval(row),
            str(row.summary.count),
        )
        previous = row.case.scenario
    return table


def ratio_table(store: Store, campaign: int) -> Table:
    """Headrace over OVS-DPDK, on the same ports and in the same rounds."""
    table = Table(title="headrace / ovs-dpdk on the same ports, side by side")
    for name in ("scenario", "case", "metric"):
        table.add_column(name, overflow="fold")
    for name in ("ratio", "interval", "pairs"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for entry in ratios_of(store, campaign):
        if entry.metric not in (*RATE_METRICS, "cpu_percent"):
            continue
        case, ratio = entry.ours, entry.ratio
        span = "" if ratio.low is None else f"{ratio.low:.2f} .. {ratio.high:.2f}"
        table.add_row(
            case.scenario,
            f"{case.frames}-{case.flows}f-{case.graph} {case.ports}",
            entry.metric + (f" at {_point(entry.point)}" if entry.metric == "cpu_percent" else ""),
            f"{ratio.value:.2f}",
            span,
            str(ratio.pairs),
            ratio.verdict,
        )
    return table


def skip_table(store: Store, campaign: int) -> Table | None:
    """What could not be measured, or None if everything was."""
    skips = store.skips(campaign)
    if not skips:
        return None
    table = Table(title="Skipped")
    for name in ("scenario", "case", "reason"):
        table.add_column(name, overflow="fold")
    for skip in skips:
        table.add_row(skip.scenario, skip.what, skip.reason)
    return table
