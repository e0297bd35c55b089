# SPDX-License-Identifier: Apache-2.0
"""The results database: one SQLite file for all campaigns. The schema below is its documentation.

A campaign is written while it runs (each trial is committed when it ends), so that a campaign
that was stopped half-way keeps its results. Anything that needs whole rows (the table, the
model, the report, `compare`) reads them back from here, never from memory.

Thread safety: one `Store` belongs to one thread.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Self

from headrace.results.records import Campaign, Case, Fit, Sample, Skip, Trial

SCHEMA_VERSION = 5

SCHEMA = """
-- One row for each `headrace run` or `headrace bench run`. Times are seconds since the epoch.
CREATE TABLE IF NOT EXISTS campaigns (
  id INTEGER PRIMARY KEY,
  started REAL NOT NULL,
  ended REAL,
  status TEXT NOT NULL,          -- running | complete | interrupted | failed: why
  manifest TEXT NOT NULL         -- JSON: machine, versions, core plan, definitions, seeds
);
-- One point of a scenario in one campaign; columns as headrace.results.records.Case.
CREATE TABLE IF NOT EXISTS cases (
  id INTEGER PRIMARY KEY,
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  scenario TEXT NOT NULL, shape TEXT NOT NULL, vnfs INTEGER NOT NULL, placement TEXT NOT NULL,
  switch TEXT NOT NULL, ports TEXT NOT NULL, vnf_ports TEXT NOT NULL,
  function TEXT NOT NULL, engine TEXT NOT NULL, size TEXT NOT NULL, flows INTEGER NOT NULL,
  prefixes INTEGER NOT NULL, variant TEXT NOT NULL,
  UNIQUE (campaign, scenario, shape, vnfs, placement, switch, ports, vnf_ports, function, engine,
          size, flows, prefixes, variant)
);
-- One run at one load; columns as headrace.results.records.Trial, dictionaries as JSON.
CREATE TABLE IF NOT EXISTS trials (
  id INTEGER PRIMARY KEY,
  case_id INTEGER NOT NULL REFERENCES cases(id),
  round INTEGER NOT NULL, purpose TEXT NOT NULL, intended_pps REAL, duration_s REAL NOT NULL,
  sent INTEGER NOT NULL, received INTEGER NOT NULL, lost INTEGER NOT NULL, unsent INTEGER NOT NULL,
  loss_ratio REAL NOT NULL, tx_pps REAL NOT NULL, rx_pps REAL NOT NULL, started REAL NOT NULL,
  busy_cycles INTEGER, waited_cycles INTEGER NOT NULL, switch_packets INTEGER,
  tsc_hz REAL, vnf_busy_cycles INTEGER,
  approximate INTEGER NOT NULL, generator_limited INTEGER NOT NULL,
  latency_ns TEXT NOT NULL, detail TEXT NOT NULL
);
-- One value of one metric in one round; units: headrace.results.records.UNITS.
CREATE TABLE IF NOT EXISTS samples (
  id INTEGER PRIMARY KEY,
  case_id INTEGER NOT NULL REFERENCES cases(id),
  metric TEXT NOT NULL, point TEXT NOT NULL, round INTEGER NOT NULL, value REAL NOT NULL,
  generator_limited INTEGER NOT NULL,
  relation TEXT NOT NULL,        -- = | >= (at least the value) | < (below it)
  turn INTEGER NOT NULL,         -- number in its round: equal ones of two cases are a pair
  disturbance REAL NOT NULL      -- share of the time that others took
);
CREATE INDEX IF NOT EXISTS samples_case ON samples(case_id, metric, point);
-- What could not be measured, and why.
CREATE TABLE IF NOT EXISTS skips (
  id INTEGER PRIMARY KEY,
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  scenario TEXT NOT NULL, what TEXT NOT NULL, switch TEXT NOT NULL, reason TEXT NOT NULL,
  UNIQUE (campaign, scenario, what, switch, reason)
);
-- What a command measured for a scenario: rows as commands print them by --json.
CREATE TABLE IF NOT EXISTS command_rows (
  id INTEGER PRIMARY KEY,
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  scenario TEXT NOT NULL,
  row TEXT NOT NULL              -- JSON
);
-- The cost functions fitted from a campaign; columns as headrace.results.records.Fit.
CREATE TABLE IF NOT EXISTS fits (
  id INTEGER PRIMARY KEY,
  campaign INTEGER NOT NULL REFERENCES campaigns(id),
  fit TEXT NOT NULL              -- JSON
);
"""

_CASE_COLUMNS = [entry.name for entry in fields(Case)]
_TRIAL_COLUMNS = [entry.name for entry in fields(Trial)]
_TRIAL_BOOLS = {"approximate", "generator_limited"}
_TRIAL_JSON = {"latency_ns", "detail"}


class StoreError(Exception):
    """The file is not a results database of this version, or holds no such campaign."""


class Store:
    """Reads and writes one results database."""

    def __init__(self, path: Path) -> None:
        """Opens the database at `path`, creating it and its folder if need be.

        Raises:
            StoreError: the file is something else, or was written by another schema version.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path)
        try:
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, SCHEMA_VERSION):
                raise StoreError(
                    f"{path} has schema version {version}, this program reads {SCHEMA_VERSION}; "
                    "move the file away or name another with --results"
                )
            # A commit after each trial must not wait for the disk between two trials.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(SCHEMA)
            self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self._db.commit()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise StoreError(f"{path} is not a results database: {error}") from error
        except StoreError:
            self._db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    # Writing

    def begin(self, manifest: dict[str, Any]) -> int:
        """Starts a campaign and returns its id."""
        with self._db:
            cursor = self._db.execute(
                "INSERT INTO campaigns (started, status, manifest) VALUES (?, 'running', ?)",
                (time.time(), json.dumps(manifest)),
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def finish(self, campaign: int, status: str) -> None:
        """Marks a campaign as ended with `status`."""
        with self._db:
            self._db.execute(
                "UPDATE campaigns SET ended = ?, status = ? WHERE id = ?",
                (time.time(), status, campaign),
            )

    def set_manifest(self, campaign: int, manifest: dict[str, Any]) -> None:
        """Replaces a campaign's manifest (facts that are known only once nodes are up)."""
        with self._db:
            self._db.execute(
                "UPDATE campaigns SET manifest = ? WHERE id = ?", (json.dumps(manifest), campaign)
            )

    def case_id(self, campaign: int, case: Case) -> int:
        """The id of `case` in the campaign; adds it if it is new."""
        values = (campaign, *astuple(case))
        columns = ", ".join(["campaign", *_CASE_COLUMNS])
        marks = ", ".join("?" * len(values))
        with self._db:
            self._db.execute(
                f"INSERT OR IGNORE INTO cases ({columns}) VALUES ({marks})",  # noqa: S608
                values,
            )
        where = " AND ".join(f"{column} = ?" for column in ["campaign", *_CASE_COLUMNS])
        row = self._db.execute(f"SELECT id FROM cases WHERE {where}", values).fetchone()  # noqa: S608
        return int(row[0])

    def add_trial(self, case_id: int, trial: Trial) -> None:
        """Stores one trial."""
        values = [
            json.dumps(getattr(trial, name)) if name in _TRIAL_JSON else getattr(trial, name)
            for name in _TRIAL_COLUMNS
        ]
        columns = ", ".join(["case_id", *_TRIAL_COLUMNS])
        marks = ", ".join("?" * (len(values) + 1))
        with self._db:
            self._db.execute(
                f"INSERT INTO trials ({columns}) VALUES ({marks})",  # noqa: S608
                (case_id, *values),
            )

    def add_samples(self, case_id: int, samples: list[Sample]) -> None:
        """Stores the samples of one round of a case."""
        with self._db:
            self._db.executemany(
                "INSERT INTO samples (case_id, metric, point, round, value, generator_limited,"
                " relation, turn, disturbance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(case_id, *astuple(sample)) for sample in samples],
            )

    def add_skip(self, campaign: int, skip: Skip) -> None:
        """Stores a skipped case (once, however often it is reported)."""
        with self._db:
            self._db.execute(
                "INSERT OR IGNORE INTO skips (campaign, scenario, what, switch, reason)"
                " VALUES (?, ?, ?, ?, ?)",
                (campaign, *astuple(skip)),
            )

    def add_command_row(self, campaign: int, scenario: str, row: dict[str, Any]) -> None:
        """Stores one row that a command measured for a scenario."""
        with self._db:
            self._db.execute(
                "INSERT INTO command_rows (campaign, scenario, row) VALUES (?, ?, ?)",
                (campaign, scenario, json.dumps(row)),
            )

    def reopen(self, campaign: int) -> None:
        """Marks a campaign as running again; what it skipped may be measured now."""
        with self._db:
            self._db.execute("DELETE FROM skips WHERE campaign = ?", (campaign,))
            self._db.execute(
                "UPDATE campaigns SET ended = NULL, status = 'running' WHERE id = ?", (campaign,)
            )

    def set_fits(self, campaign: int, fits: list[Fit]) -> None:
        """Replaces the cost functions of a campaign."""
        with self._db:
            self._db.execute("DELETE FROM fits WHERE campaign = ?", (campaign,))
            self._db.executemany(
                "INSERT INTO fits (campaign, fit) VALUES (?, ?)",
                [(campaign, json.dumps(vars(fit))) for fit in fits],
            )

    # Reading

    def campaigns(self) -> list[Campaign]:
        """All campaigns, oldest first."""
        rows = self._db.execute(
            "SELECT id, started, ended, status, manifest FROM campaigns ORDER BY id"
        )
        return [
            Campaign(int(row[0]), float(row[1]), row[2], str(row[3]), json.loads(row[4]))
            for row in rows
        ]

    def campaign(self, campaign: int | None = None) -> Campaign:
        """One campaign, the newest if none is named.

        Raises:
            StoreError: there is no such campaign.
        """
        found = self.campaigns()
        for entry in reversed(found):
            if campaign is None or entry.id == campaign:
                return entry
        known = ", ".join(str(entry.id) for entry in found) or "none"
        raise StoreError(f"no campaign {campaign or ''} in {self.path} (known: {known})")

    def cases(self, campaign: int) -> dict[int, Case]:
        """The cases of a campaign by their ids, in the order in which they were first met."""
        columns = ", ".join(["id", *_CASE_COLUMNS])
        rows = self._db.execute(
            f"SELECT {columns} FROM cases WHERE campaign = ? ORDER BY id",  # noqa: S608
            (campaign,),
        )
        return {int(row[0]): Case(*row[1:]) for row in rows}

    def trials(self, case_id: int) -> Iterator[Trial]:
        """The trials of a case in the order in which they ran."""
        columns = ", ".join(_TRIAL_COLUMNS)
        query = f"SELECT {columns} FROM trials WHERE case_id = ? ORDER BY id"  # noqa: S608
        with closing(self._db.execute(query, (case_id,))) as rows:
            for row in rows:
                values = dict(zip(_TRIAL_COLUMNS, row, strict=True))
                for name in _TRIAL_JSON:
                    values[name] = json.loads(values[name])
                for name in _TRIAL_BOOLS:
                    values[name] = bool(values[name])
                yield Trial(**values)

    def samples(self, case_id: int) -> list[Sample]:
        """The samples of a case in the order in which they were drawn."""
        rows = self._db.execute(
            "SELECT metric, point, round, value, generator_limited, relation, turn, disturbance"
            " FROM samples WHERE case_id = ? ORDER BY id",
            (case_id,),
        )
        return [
            Sample(metric, point, int(at), float(value), bool(limited), relation, int(turn), taken)
            for metric, point, at, value, limited, relation, turn, taken in rows
        ]

    def skips(self, campaign: int) -> list[Skip]:
        """The skipped cases of the campaign."""
        rows = self._db.execute(
            "SELECT scenario, what, switch, reason FROM skips WHERE campaign = ? ORDER BY id",
            (campaign,),
        )
        return [Skip(*row) for row in rows]

    def command_rows(self, campaign: int) -> list[tuple[str, dict[str, Any]]]:
        """The scenario and the row of all that commands measured in the campaign."""
        rows = self._db.execute(
            "SELECT scenario, row FROM command_rows WHERE campaign = ? ORDER BY id", (campaign,)
        )
        return [(str(row[0]), json.loads(row[1])) for row in rows]

    def fits(self, campaign: int) -> list[Fit]:
        """The cost functions fitted from the campaign."""
        rows = self._db.execute("SELECT fit FROM fits WHERE campaign = ? ORDER BY id", (campaign,))
        return [Fit(**json.loads(row[0])) for row in rows]
