# SPDX-License-Identifier: Apache-2.0
"""Writes a campaign to a file for other programs: Parquet, CSV, JSON or Markdown by its suffix.

Parquet and CSV hold the samples (`flat.py`), Parquet with the manifest in its metadata. JSON holds
all there is: manifest, samples, trials and skipped cases. Markdown is the summary for a person.
"""

import csv
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pyarrow
from pyarrow import parquet

from headrace.results.bounds import bounded
from headrace.results.direction import judged
from headrace.results.flat import COLUMNS, WHOLE, FlatError, flat_rows
from headrace.results.records import UNITS
from headrace.results.store import Store
from headrace.results.summary import RatioRow, Row, ratios_of, rows_of
from headrace.results.units import digits, quantity

VERSION = 2
"""Of the JSON document and the flat table."""
MANIFEST_KEY = b"headrace.manifest"

_WHOLE, _REAL, _TEXT = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
ARROW = pyarrow.schema(
    [
        (
            name,
            {"value": _REAL, "disturbance": _REAL, "generator_limited": pyarrow.bool_()}.get(
                name, _WHOLE if name in WHOLE else _TEXT
            ),
        )
        for name in COLUMNS
    ]
)


def _parquet(store: Store, campaign: int, path: Path) -> None:
    manifest = json.dumps(store.campaign(campaign).manifest).encode()
    table = pyarrow.Table.from_pylist(list(flat_rows(store, campaign)), schema=ARROW)
    parquet.write_table(table.replace_schema_metadata({MANIFEST_KEY: manifest}), path)


def _csv(store: Store, campaign: int, path: Path) -> None:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(flat_rows(store, campaign))


def _json(store: Store, campaign: int, path: Path) -> None:
    entry = store.campaign(campaign)
    document = {
        "version": VERSION,
        "started": entry.started,
        "ended": entry.ended,
        "status": entry.status,
        "manifest": entry.manifest,
        "samples": list(flat_rows(store, campaign)),
        "trials": [
            {"case": asdict(case), **asdict(trial)}
            for case_id, case in store.cases(campaign).items()
            for trial in store.trials(case_id)
        ],
        "skipped": [asdict(skip) for skip in store.skips(campaign)],
    }
    path.write_text(json.dumps(document, indent=1))


def _interval(row: Row) -> str:
    summary = row.summary
    if summary.low is None or summary.high is None:
        return f"({quantity(summary.minimum, row.unit)} .. {quantity(summary.maximum, row.unit)})"
    return f"[{quantity(summary.low, row.unit)} .. {quantity(summary.high, row.unit)}]"


RATIOS = ("mrr", "ndr", "pdr", "ndr-quick", "pdr-quick", "cycles_per_packet")


def _graph(entry: RatioRow) -> str:
    case = entry.ours
    at = f", {entry.point}" if entry.point.endswith(" pps") else ""
    return f"{case.graph}, {case.frames}, {case.flows:,}{at}"


def _sides(entry: RatioRow) -> str:
    """The values of both that the ratio is of; two cells."""
    unit = UNITS.get(entry.metric, "")
    sides = ((entry.pairs.over, entry.our_bound), (entry.pairs.under, entry.their_bound))
    return " | ".join(bounded(quantity(side.value, unit), sign) for side, sign in sides)


def _ratio(entry: RatioRow) -> str:
    """The ratio with its interval, and what that says; two cells."""
    ratio = entry.ratio
    said = judged(entry.metric, ratio.verdict)
    if ratio.low is None or ratio.high is None:
        return f"{digits(ratio.value)} | {said}"
    return f"{digits(ratio.value)} [{digits(ratio.low)} .. {digits(ratio.high)}] | {said}"


def _markdown(store: Store, campaign: int, path: Path) -> None:
    signs = {"=": "", ">=": "≥ ", "<": "< "}
    lines = [f"# Campaign {campaign}", ""]
    ratios = [entry for entry in ratios_of(store, campaign) if entry.metric in RATIOS]
    if ratios:
        lines += [
            "| graph, frames, flows | metric | headrace | ovs-dpdk | ratio [95 % interval] | |",
            "|---|---|---|---|---|---|",
            *(
                f"| {_graph(entry)} | {entry.metric} | {_sides(entry)} | {_ratio(entry)} |"
                for entry in ratios
            ),
            "",
        ]
    lines += [
        "Median [95 % interval], or (range) of fewer than six samples.",
        "",
        "| scenario | case | metric | median | interval | samples |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows_of(store, campaign):
        metric = f"{row.metric} {row.point}".strip()
        value = signs[row.relation] + quantity(row.summary.median, row.unit)
        lines.append(
            f"| {row.case.scenario} | {row.case.name} | {metric} | {value} | {_interval(row)} | "
            f"{row.summary.count} |"
        )
    lines += ["", *(f"* skipped: {s.what}: {s.reason}" for s in store.skips(campaign))]
    path.write_text("\n".join(lines).rstrip() + "\n")


WRITERS: dict[str, Callable[[Store, int, Path], None]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".json": _json,
    ".md": _markdown,
}


def export(store: Store, campaign: int, path: Path) -> None:
    """Writes a campaign to `path` in the format of its suffix.

    Raises:
        FlatError: there is no such format.
        StoreError: there is no such campaign.
    """
    writer = WRITERS.get(path.suffix)
    if writer is None:
        raise FlatError(f"{path}: no format {path.suffix!r}; known: {', '.join(WRITERS)}")
    store.campaign(campaign)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer(store, campaign, path)
