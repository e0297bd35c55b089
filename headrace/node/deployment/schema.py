# SPDX-License-Identifier: Apache-2.0
"""The schema of the node's database, brought to this version's by migrations (yoyo).

Each file of `migrations/` is one change, applied once, in the order of their names, in a
transaction; which have been applied is in the database. A database of a later version, whose
migrations are not known here, is refused: what it means is not known either.
"""

import contextlib
import sqlite3
from pathlib import Path
from urllib.parse import quote

from yoyo import get_backend, read_migrations
from yoyo.exceptions import LockTimeout

from headrace.machine.places import remove_database
from headrace.node.errors import ConfigError

_MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(file: Path) -> None:
    """Brings the database `file`, which this process alone has open, to the present schema.

    Raises:
        ConfigError: a later version has made it, or it is none of the node's.
    """
    known = read_migrations(str(_MIGRATIONS))
    try:
        with get_backend(f"sqlite:///{quote(str(file))}") as backend:
            backend.break_lock()  # of a node that was killed on the way; only one runs at a time
            with backend.lock():
                applied = set(backend.get_applied_migration_hashes())
                if not applied <= {migration.hash for migration in known}:
                    raise ConfigError(
                        "store",
                        f"{file} is of a later version of headrace; use that, or restore a backup "
                        f"(`headrace node restore`) that this version has made",
                    )
                backend.apply_migrations(backend.to_apply(known))
    except (sqlite3.DatabaseError, LockTimeout) as error:
        raise ConfigError("store", f"{file}: {error}") from error


def copy_database(source: Path, target: Path) -> None:
    """Copies a database as of one moment, even while a node writes to it; only its user may read.

    Raises:
        ConfigError: `source` is no database, or is damaged; `target` is not touched.
    """
    address = f"file:{quote(str(source))}?mode=ro"
    draft = target.with_name(target.name + ".new")
    draft.unlink(missing_ok=True)
    draft.touch(mode=0o600)
    try:
        with (
            contextlib.closing(sqlite3.connect(address, uri=True)) as a,
            contextlib.closing(sqlite3.connect(draft)) as b,
        ):
            a.backup(b)
            b.execute("PRAGMA journal_mode=DELETE")
            (verdict,) = b.execute("PRAGMA integrity_check").fetchone()
            tables = {row[0] for row in b.execute("SELECT name FROM sqlite_master")}
        if verdict != "ok" or not {"graph", "step", "meta"} <= tables:
            raise ConfigError("store", f"{source} is no database of a node, or is damaged")
        remove_database(target)
        draft.replace(target)
    except sqlite3.Error as error:
        raise ConfigError("store", f"{source}: {error}") from error
    finally:
        draft.unlink(missing_ok=True)


def move_database(source: Path, target: Path) -> None:
    """Moves a database that nobody has open to another place, which may be another file system."""
    copy_database(source, target)
    remove_database(source)
