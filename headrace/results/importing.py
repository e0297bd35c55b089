# SPDX-License-Identifier: Apache-2.0
"""Reads results of other programs, or of another machine, as a campaign of their own.

Parquet, CSV and JSON in the form of `flat.py`; nothing is stored unless the whole file is right.
The campaign's manifest says that it was imported, from which file and with which checksum, so that
nobody takes its figures for measurements of this machine.
"""

import csv
import json
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyarrow import ArrowInvalid, parquet

from headrace.results.export import MANIFEST_KEY
from headrace.results.flat import FlatError, parse_row
from headrace.results.records import Case, Sample
from headrace.results.store import Store


def _read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows of a file and its manifest (empty if it has none)."""
    if path.suffix == ".csv":
        with path.open(newline="") as stream:
            return list(csv.DictReader(stream)), {}
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        if not isinstance(document, dict) or not isinstance(document.get("samples"), list):
            raise FlatError(f"{path}: an object with a list `samples` is needed")
        return document["samples"], dict(document.get("manifest") or {})
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        kept = (table.schema.metadata or {}).get(MANIFEST_KEY)
        return table.to_pylist(), json.loads(kept) if kept else {}
    raise FlatError(f"{path}: no format {path.suffix!r}; known: .parquet, .csv, .json")


def import_file(store: Store, path: Path) -> int:
    """Stores the file's results as a new campaign and returns its number.

    Raises:
        FlatError: the file can't be read or a row is no result; nothing is stored then.
    """
    try:
        rows, manifest = _read(path)
        checksum = sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError, ArrowInvalid) as error:
        raise FlatError(f"{path}: {error}") from error
    cases: dict[Case, list[Sample]] = defaultdict(list)
    for number, row in enumerate(rows, 1):
        case, sample = parse_row(row, number)
        cases[case].append(sample)
    if not cases:
        raise FlatError(f"{path}: no rows in it")
    imported = {"file": path.name, "sha256": checksum, "rows": len(rows)}
    campaign = store.begin({**manifest, "imported": imported})
    for case, samples in cases.items():
        store.add_samples(store.case_id(campaign, case), samples)
    store.finish(campaign, "imported")
    return campaign
