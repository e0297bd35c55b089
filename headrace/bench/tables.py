# SPDX-License-Identifier: Apache-2.0
"""The tables at the end of a campaign: one for each scenario, its subjects side by side."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from headrace.bench.narrow_tables import narrow_table
from headrace.bench.rows import Row as CommandRow
from headrace.bench.rows import rows_table
from headrace.results import Case
from headrace.results.bounds import NOT_DETERMINED, bounded
from headrace.results.contrasts import OURS, PEER
from headrace.results.direction import MARKS, judged
from headrace.results.statistics import Side
from headrace.results.store import Store
from headrace.results.summary import RATE_METRICS, RatioRow, Row, ratios_of, rows_of
from headrace.results.units import digits

_SCALE = {"pps": (1e-6, "Mpps"), "ns": (1e-3, "µs"), "% of a core": (1.0, "%"), "": (100.0, "%")}
WIDE = 120
"""Columns below which no table has a column for each subject; one that needs more gets lines."""
WIDEST_PRINTED = 20.0
"""An interval whose ends differ by more shows nothing, and is marked so."""
_SHOWN = (
    *RATE_METRICS,
    "loss_ratio",
    "latency_p50",
    "latency_p99",
    "cpu_percent",
    "cycles_per_packet",
    "burst_frames",
    "buffer_time",
    "recovery_time",
    "outage_time",
)

Key = tuple[str, str, str]


def _what(case: Case, many_flows: bool) -> str:
    plural = "" if case.flows == 1 else "s"
    flows = f", {case.flows:,} flow{plural}" if many_flows else ""
    graph = case.graph
    if case.shape == "chain" and case.vnfs > 1:
        graph = f"chain of {case.vnfs}"
    elif case.shape == "parallel" and case.vnfs > 1:
        graph = f"{case.vnfs} in parallel"
    elif case.vnfs == 1:
        graph = "one VNF"
    elif case.prefixes:
        graph = f"{case.prefixes} prefixes"
    return f"{graph}, {case.frames}{flows}"


def _order(case: Case) -> tuple[int, str, int, int, float, str, int]:
    """Where a case stands in its table: by graph, frame size (mixes last) and number of flows.

    Cases are measured in an order of chance, which says nothing to a reader.
    """
    mix = not case.size.isdigit()
    size = math.inf if mix else float(case.size)
    return (case.vnfs, case.shape, case.prefixes, mix, size, case.size, case.flows)


def _point_order(point: str) -> float:
    return float(point.split()[0].rstrip("%")) if point[:1].isdigit() else 0.0


def _metric(row: Row) -> str:
    unit = _SCALE.get(row.unit, (1.0, row.unit))[1]
    name = row.metric.removeprefix("latency_")
    if row.metric == "loss_ratio":
        at = row.point.replace("% pdr", " % PDR")
        if row.point.endswith(" pps"):
            at = f"{float(row.point.split()[0]) / 1e3:g} kpps"
        return f"lost at {at}, %"
    if row.metric == "cycles_per_packet":
        return f"cycles at {float(row.point.split()[0]) / 1e3:g} kpps"
    if row.point.endswith(" pps"):
        return f"busy at {float(row.point.split()[0]) / 1e3:g} kpps, {unit}"
    if row.metric in RATE_METRICS and row.metric != "mrr" and row.point:
        return f"{name.upper()} at {row.point.replace('% loss', ' % loss')}, {unit}"
    if row.point and row.metric not in RATE_METRICS:
        return f"{name} at {row.point.replace('% pdr', ' % PDR')}, {unit}"
    return f"{name.upper()}, {unit}"


def _cell(row: Row, side: Side | None = None) -> str:
    """A row's median; where it is a side of a ratio, the value of the pairs that this is of."""
    factor = _SCALE.get(row.unit, (1.0, ""))[0]
    of = side or row.summary
    value, count = (of.value, of.rounds) if isinstance(of, Side) else (of.median, of.count)
    text = bounded(digits(factor * value), row.bound)
    if of.low is not None and of.high is not None:
        return f"{text} [{digits(factor * of.low)}..{digits(factor * of.high)}]"
    if count > 1:
        return f"{text} ({digits(factor * of.minimum)}..{digits(factor * of.maximum)})"
    return text


def _ratio(entry: RatioRow | None) -> str:
    if entry is None:
        return ""
    ratio = entry.ratio
    value = bounded(digits(ratio.value), entry.bound)
    if ratio.low is None or ratio.high is None or entry.bound == NOT_DETERMINED:
        return value
    mark = MARKS[judged(entry.metric, ratio.verdict)]
    if ratio.high > WIDEST_PRINTED * ratio.low:
        return f"{value} {mark}"
    return f"{value} [{digits(ratio.low)}..{digits(ratio.high)}] {mark}"


def _kept(rows: Iterable[Row]) -> list[Row]:
    """The shown metrics; of several loads only the lowest and the highest, cycles of this only."""
    found = [row for row in rows if row.metric in _SHOWN]
    loads = [_point_order(row.point) for row in found if row.metric == "cpu_percent"]
    ends = {min(loads), max(loads)} if loads else set()
    top = max(ends, default=None)

    def shown(row: Row) -> bool:
        if row.metric == "cycles_per_packet":
            return row.point.endswith(" pps") and _point_order(row.point) == top
        return not row.point.endswith(" pps") or _point_order(row.point) in ends

    return [row for row in found if shown(row)]


def scenario_tables(store: Store, campaign: int, width: int = WIDE) -> list[Table]:
    """One table for each scenario of the campaign, in the order of measuring; see `WIDE`."""
    rows = rows_of(store, campaign)
    ratios = {
        (entry.ours, entry.metric, entry.point): entry for entry in ratios_of(store, campaign)
    }
    return [
        _scenario_table(name, [row for row in rows if row.case.scenario == name], ratios, width)
        for name in dict.fromkeys(row.case.scenario for row in rows)
    ]


def columns_of(cases: Sequence[Case]) -> dict[Case, str]:
    """The column of each case: its deployment; without VNFs that of the same switch with VNFs.

    Where the switch has several kinds of VNFs on the same outer ports, p2p has its own.
    """
    inner: dict[tuple[str, str, str], set[str]] = {}
    for case in cases:
        if case.vnf_ports:
            key = (case.switch, case.ports, case.variant)
            inner.setdefault(key, set()).add(case.deployment)
    found = {}
    for case in cases:
        others = inner.get((case.switch, case.ports, case.variant), set())
        alone = not case.vnf_ports and len(others) == 1
        found[case] = next(iter(others)) if alone else case.deployment
    return found


def _scenario_table(
    name: str,
    rows: list[Row],
    ratios: dict[tuple[Case, str, str], RatioRow],
    width: int,
) -> Table:
    column = columns_of([row.case for row in rows])
    subjects = list(dict.fromkeys(column.values()))
    compared = any(key[0].scenario == name for key in ratios)
    many_flows = len({row.case.flows for row in rows}) > 1
    sides: dict[tuple[Case, str, str], Side] = {}
    for ratio in ratios.values():
        sides[(ratio.ours, ratio.metric, ratio.point)] = ratio.pairs.over
        sides[(ratio.theirs, ratio.metric, ratio.point)] = ratio.pairs.under
    cells: dict[Key, dict[str, str]] = {}
    best: dict[Key, RatioRow] = {}
    metrics: dict[Key, str] = {}
    for row in sorted(_kept(rows), key=lambda one: _order(one.case)):
        key = (_what(row.case, many_flows), row.metric, row.point)
        where = (row.case, row.metric, row.point)
        cells.setdefault(key, {})[column[row.case]] = _cell(row, sides.get(where))
        metrics[key] = _metric(row)
        found = ratios.get(where)
        if found is not None:
            best[key] = found
    whats = list(dict.fromkeys(key[0] for key in cells))
    order = sorted(cells, key=lambda k: (whats.index(k[0]), _SHOWN.index(k[1]), _point_order(k[2])))
    if width >= WIDE:
        wide = _wide_table(name, subjects, order, cells, metrics, best if compared else None)
        plain = Console(width=10 * width)
        if Measurement.get(plain, plain.options, wide).maximum <= width:
            return wide
    beside = {key: (column[entry.ours], _ratio(entry)) for key, entry in best.items()}
    return narrow_table(name, order, cells, metrics, beside)


def _wide_table(
    name: str,
    subjects: Sequence[str],
    order: Sequence[Key],
    cells: Mapping[Key, Mapping[str, str]],
    metrics: Mapping[Key, str],
    best: Mapping[Key, RatioRow] | None,
) -> Table:
    """A column for each subject, and one for `best`, the ratios, where something is compared."""
    table = Table(title=name, title_justify="left", title_style="bold")
    table.add_column("case", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for subject in subjects:
        table.add_column(subject.replace("/", "\n").replace("+", "\n+"), justify="right")
    if best is not None:
        table.add_column(f"{OURS} /\n{PEER}", justify="right", no_wrap=True)
    previous = ""
    for key in order:
        if previous and key[0] != previous:
            table.add_section()
        found = cells[key]
        line = [key[0] if key[0] != previous else "", metrics[key]]
        line += [found.get(subject, "–") for subject in subjects]
        table.add_row(*line, *([] if best is None else [_ratio(best.get(key))]))
        previous = key[0]
    return table


def skip_table(store: Store, campaign: int) -> Table | None:
    """The skipped cases, one line for each subject and reason; None if there are none."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for skip in store.skips(campaign):
        grouped.setdefault((skip.scenario, skip.switch, skip.reason), []).append(skip.what)
    if not grouped:
        return None
    table = Table(title="skipped", title_justify="left", title_style="bold")
    table.add_column("scenario", overflow="fold")
    table.add_column("subject", overflow="fold")
    table.add_column("cases", justify="right")
    table.add_column("reason", overflow="fold")
    for (scenario, switch, reason), whats in grouped.items():
        table.add_row(scenario, switch, str(len(whats)), reason)
    return table


def command_tables(store: Store, campaign: int) -> list[Table]:
    """One table for each experiment that a command measured: its figures, or its statements."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, row in store.command_rows(campaign):
        found.setdefault(name, []).append(row)
    return [_command_table(name, rows) for name, rows in found.items()]


def _command_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    if "statement" not in rows[0]:
        return rows_table([CommandRow.model_validate(row) for row in rows], name)
    table = Table(title=name, title_justify="left", title_style="bold")
    words = ("where", "statement", "computed", "outcome")
    for word in words:
        table.add_column(word, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row[word])) for word in words))
    return table


LEGEND = (
    "beside a ratio: the geometric means of the pairs that it is of; else the median [95 % "
    "interval], (range) of too few; ≥ the generator limited the rate, or may have: the switch may "
    "be faster; ▲ better, ▼ worse, ≈ same within 5 %, ? not determined"
)


def print_tables(console: Console, store: Store, campaign: int) -> None:
    """Prints the tables of a campaign, the legend, and what was skipped."""
    tables = scenario_tables(store, campaign, console.width)
    for table in tables:
        console.print(table)
    for table in command_tables(store, campaign):
        console.print(table)
    if tables:
        console.print(LEGEND, highlight=False, markup=False)
    skipped = skip_table(store, campaign)
    if skipped is not None:
        console.print(skipped)
