# SPDX-License-Identifier: Apache-2.0
"""The papers' numbers, read from `published/*.csv`: data, so that no number is in code."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.results.papers import PAPERS

FOLDER = Path(__file__).resolve().parent.parent.parent / "published"

SOURCES: dict[str, str] = {one.short: one.title for one in PAPERS}
"""The papers by their short names."""


@dataclass(frozen=True)
class PublishedFit:
    """One row of Luizelli's Table I, with the coefficients under the names that are printed."""

    switch: str
    placement: str
    packet_bytes: int
    alpha: float
    beta: float
    gamma: float


@dataclass(frozen=True)
class PublishedValue:
    """One number of a paper. `packet_bytes` is a number of bytes or a word such as `imix`."""

    paper: str
    where: str
    experiment: str
    system: str
    placement: str
    function: str
    packet_bytes: str
    flows: int | None
    vnfs: int | None
    threads: int | None
    value: float
    unit: str
    note: str


def _rows(name: str, folder: Path) -> Iterable[dict[str, str]]:
    with (folder / name).open(newline="") as stream:
        yield from csv.DictReader(stream)


def cost_functions(folder: Path = FOLDER) -> list[PublishedFit]:
    """Luizelli's Table I."""
    return [
        PublishedFit(
            row["switch"],
            row["placement"],
            int(row["packet_bytes"]),
            float(row["alpha"]),
            float(row["beta"]),
            float(row["gamma"]),
        )
        for row in _rows("cost-function.csv", folder)
    ]


def _number(text: str) -> int | None:
    return int(text) if text else None


def throughput(folder: Path = FOLDER) -> list[PublishedValue]:
    """Every throughput, loss and power figure that survives in the papers' texts."""
    return [
        PublishedValue(
            row["paper"],
            row["where"],
            row["experiment"],
            row["system"],
            row["placement"],
            row["function"],
            row["packet_bytes"],
            _number(row["flows"]),
            _number(row["vnfs"]),
            _number(row["threads"]),
            float(row["value"]),
            row["unit"],
            row["note"],
        )
        for row in _rows("throughput.csv", folder)
    ]


def compositions(folder: Path = FOLDER) -> list[PublishedValue]:
    """Hong's tables: each throughput in Mpps and in Gbit/s, summed over both directions."""
    found = []
    for row in _rows("datapath-composition.csv", folder):
        for column, factor, unit in (
            ("throughput_fps", 1e6, "Mpps"),
            ("throughput_mbps", 1e3, "Gbit/s"),
        ):
            found.append(
                PublishedValue(
                    row["paper"],
                    row["where"],
                    "l2-forwarding",
                    row["system"],
                    "",
                    "l2fwd",
                    row["packet_bytes"],
                    None,
                    None,
                    None,
                    float(row[column]) / factor,
                    unit,
                    row["note"],
                )
            )
    return found


def values(folder: Path = FOLDER) -> list[PublishedValue]:
    """Every number of every paper but the coefficients of cost functions."""
    return [*throughput(folder), *compositions(folder)]
