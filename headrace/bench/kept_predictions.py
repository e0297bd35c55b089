# SPDX-License-Identifier: Apache-2.0
"""Graphs that `headrace bench predictions` has judged, in a file, so that it can go on later.

A graph that was measured in another state of the machine than the model's is not kept: it is
measured again. All others are, also those without an error, so that no graph is chosen by result.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from headrace.bench.manifest import machine
from headrace.bench.rows import Row


class Kept:
    """Rows by graph.

    Raises:
        ValueError: the file is none of these, or of another model, machine or other settings.
    """

    def __init__(self, path: Path | None, model: Path, settings: Sequence[object]) -> None:
        """`path` None keeps nothing."""
        self._path = path
        self._rows: dict[str, Row] = {}
        known = machine()
        content = hashlib.sha256(model.read_bytes()).hexdigest()
        self._of = [content, str(known.get("processor")), str(known.get("cores"))]
        self._of += [str(one) for one in settings]
        if path is None or not path.exists():
            return
        try:
            found = json.loads(path.read_text())
            of, rows = found["of"], found["rows"]
            self._rows = {name: Row.model_validate(one) for name, one in rows.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: no file of `headrace bench predictions`: {error}") from error
        if of != self._of:
            raise ValueError(
                f"{path}: of another model, machine, switch, seed or length of trials; "
                "give another file to --keep"
            )

    def row(self, name: str) -> Row | None:
        """What was found of a graph; None: it is to be measured."""
        return self._rows.get(name)

    def add(self, name: str, row: Row) -> None:
        """Keeps a graph's row at once."""
        self._rows[name] = row
        if self._path is None:
            return
        body = {"of": self._of, "rows": {key: one.model_dump() for key, one in self._rows.items()}}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(body) + "\n")
        part.replace(self._path)
