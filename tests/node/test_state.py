# SPDX-License-Identifier: Apache-2.0
"""What a node remembers: migrated from version to version, found where it was, backed up."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.machine.places import database, remove_database, state_of
from headrace.node import daemon
from headrace.node.deployment import schema
from headrace.node.deployment.backup import backup, restore
from headrace.node.deployment.schema import migrate
from headrace.node.deployment.store import Store
from headrace.node.errors import ConfigError
from tests.node.crashing import FIRST, SETTINGS, make_node
from tests.node.earlier import as_of_0_1_0
from tests.node.fakes import World


@pytest.fixture
def statedir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"


async def deployed(rundir: Path, world: World) -> None:
    """A node with a graph, which then ends; its switch and VNF run on."""
    node = make_node(rundir, world)
    await node.start()
    await node.graphs.create("g", FIRST)
    await node.close()


async def taken_over(rundir: Path, world: World) -> None:
    """The next node finds the graph running, and touches none of it."""
    made = list(world.changes)
    node = make_node(rundir, world)
    await node.start()
    record = node.graphs.record("g")
    assert record.document == FIRST
    assert node.status(record)["status"] == "complete"
    assert world.changes == made
    await node.close()


async def test_an_upgrade_takes_over_graphs_that_run(
    rundir: Path, statedir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "idle", "yield")  # as that version had it
    world = World(rundir / "world.json")
    await deployed(rundir, world)
    earlier = rundir / "earlier"
    as_of_0_1_0(rundir / "node.sqlite", earlier)
    remove_database(rundir / "node.sqlite")
    earlier.rename(rundir / "node.sqlite")
    daemon.prepare(rundir, statedir)  # as `up` does
    assert not (rundir / "node.sqlite").exists()
    assert database(rundir) == statedir / "node.sqlite"
    await taken_over(rundir, world)
    await taken_over(rundir, world)  # and that of this version does, too


def test_migrations_are_applied_once(tmp_path: Path) -> None:
    file = tmp_path / "node.sqlite"
    for _ in range(2):
        migrate(file)
    with closing(sqlite3.connect(file)) as found:
        applied = found.execute("SELECT migration_id FROM _yoyo_migration ORDER BY 1").fetchall()
    files = Path(schema.__file__).with_name("migrations").glob("*.sql")
    assert [name for (name,) in applied] == sorted(file.stem for file in files)


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.sqlite"
    Store(file).close()
    with closing(sqlite3.connect(file)) as later:
        later.execute(
            "INSERT INTO _yoyo_migration VALUES ('0123', '0009-of-another-time', '2030-01-01')"
        )
        later.commit()
    with pytest.raises(ConfigError, match="is of a later version of headrace"):
        Store(file)


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.sqlite"
    file.write_text("no database" * 100)
    with pytest.raises(ConfigError, match="not a database"):
        Store(file)


async def test_another_nodes_state_is_refused(rundir: Path, statedir: Path) -> None:
    world = World(rundir / "world.json")
    daemon.prepare(rundir, statedir)
    await deployed(rundir, world)
    other = rundir / "other"
    daemon.prepare(other, statedir)
    with pytest.raises(ConfigError, match=f"is the state of the node of {rundir}"):
        await deployed(other, World(other / "world.json"))


async def test_backup_and_restore(rundir: Path, statedir: Path, tmp_path: Path) -> None:
    world = World(rundir / "world.json")
    daemon.prepare(rundir, statedir)
    node = make_node(rundir, world)
    await node.start()
    await node.graphs.create("g", FIRST)
    file = tmp_path / "backup"
    backup(rundir, file)  # while it runs
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="exists; choose another name"):
        backup(rundir, file)
    with pytest.raises(ConfigError, match="graphs of its own; run `headrace down` first"):
        restore(rundir, file)
    await node.graphs.delete("g")
    await node.close()
    remove_database(database(rundir))
    (rundir / "world.json").unlink()  # another machine, or this one after a reboot
    restore(rundir, file)
    again = make_node(rundir, World(rundir / "world.json"))
    await again.start()
    assert again.status(again.graphs.record("g"))["status"] == "complete"
    await again.close()


def test_restore_refuses_what_is_no_backup(rundir: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello" * 1000)
    with pytest.raises(ConfigError, match="not a database"):
        restore(rundir, tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "other")) as other:
        other.execute("CREATE TABLE things (name TEXT)")
    with pytest.raises(ConfigError, match="is no database of a node"):
        restore(rundir, tmp_path / "other")
    with pytest.raises(ConfigError, match="unable to open"):
        restore(rundir, tmp_path / "nothing")
    assert list(state_of(rundir).iterdir()) == []
