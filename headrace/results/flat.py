# SPDX-License-Identifier: Apache-2.0
"""Results as one flat table, a row for each sample: the form for other programs, both ways.

`COLUMNS` is the schema of CSV, Parquet and of `samples` in JSON (docs/bench.md, "The results").
What a foreign result does not have may be missing: only `scenario`, `switch`, `metric` and `value`
are needed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from headrace.results.records import UNITS, Case, Sample
from headrace.results.store import Store

CASE_COLUMNS = tuple(field.name for field in fields(Case))
SAMPLE_COLUMNS = (
    "metric", "point", "round", "value", "unit", "relation", "generator_limited", "turn",
    "disturbance",
)  # fmt: skip
COLUMNS = (*CASE_COLUMNS, *SAMPLE_COLUMNS)
NEEDED = ("scenario", "switch", "metric", "value")
DEFAULTS: dict[str, Any] = {
    "shape": "p2p", "vnfs": 0, "placement": "none", "ports": "", "vnf_ports": "", "function": "",
    "engine": "", "size": "64", "flows": 1, "prefixes": 0, "variant": "",
    "point": "", "round": 0, "unit": "",
    "relation": "=", "generator_limited": False, "turn": 0,
    "disturbance": 0.0,
}  # fmt: skip
WHOLE = ("vnfs", "flows", "prefixes", "round", "turn")
FACTORS: dict[str, float] = {
    "pps": 1.0, "kpps": 1e3, "Mpps": 1e6, "Gpps": 1e9,
    "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9,
    "%": 0.01, "ratio": 1.0, "": 1.0, "% of a core": 1.0, "TSC cycles": 1.0, "frames": 1.0,
    "bit/s": 1.0, "Gbit/s": 1e9,
}  # fmt: skip
"""What a value in a unit is multiplied with to be in that of `UNITS`."""


class FlatError(Exception):
    """A row is not a result; the message names the row, the column and what is allowed."""


def flat_rows(store: Store, campaign: int) -> Iterator[dict[str, Any]]:
    """Every sample of a campaign with its case."""
    for case_id, case in store.cases(campaign).items():
        for sample in store.samples(case_id):
            yield {
                **asdict(case),
                "metric": sample.metric,
                "point": sample.point,
                "round": sample.round,
                "value": sample.value,
                "unit": UNITS.get(sample.metric, ""),
                "relation": sample.relation,
                "generator_limited": sample.generator_limited,
                "turn": sample.turn,
                "disturbance": sample.disturbance,
            }


def parse_row(row: Mapping[str, Any], number: int) -> tuple[Case, Sample]:
    """A row as a case and a sample in the units of `UNITS`.

    Raises:
        FlatError: a needed column is missing or a value can't be read.
    """
    unknown = sorted(set(row) - set(COLUMNS))
    if unknown:
        raise FlatError(
            f"row {number}: unknown column {', '.join(unknown)}; known: {', '.join(COLUMNS)}"
        )
    given = {name: value for name, value in row.items() if value not in (None, "")}
    missing = [name for name in NEEDED if name not in given]
    if missing:
        raise FlatError(f"row {number}: {', '.join(missing)} missing; every row needs it")
    full = {**DEFAULTS, **given}
    metric, unit = str(full["metric"]), str(full["unit"])
    if metric not in UNITS:
        raise FlatError(f"row {number}: metric {metric!r}; known: {', '.join(UNITS)}")
    if unit not in FACTORS:
        raise FlatError(f"row {number}: unit {unit!r}; known: {', '.join(FACTORS)}")
    if full["relation"] not in ("=", ">=", "<"):
        raise FlatError(f"row {number}: relation {full['relation']!r}; known: =, >=, <")
    try:
        whole = {name: int(full[name]) for name in WHOLE}
        value, taken = float(full["value"]) * FACTORS[unit], float(full["disturbance"])
    except ValueError as error:
        raise FlatError(f"row {number}: {error}") from error
    case = Case(**{name: whole.get(name, _text(full[name])) for name in CASE_COLUMNS})
    limited = str(full["generator_limited"]).lower() in ("true", "1")
    where = (str(full["point"]), whole["round"])
    sample = Sample(metric, *where, value, limited, full["relation"], whole["turn"], taken)
    return case, sample


def _text(value: object) -> Any:
    return str(value)
