# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of what a node remembers: its graphs, and how far each of them is.

A backup is a copy of the node's database, taken while the node runs or not. What runs is no part
of it: a node that is started on a restored database makes everything again.
"""

from pathlib import Path

from headrace.machine.places import database
from headrace.machine.processes import Supervisor
from headrace.node.deployment.schema import copy_database
from headrace.node.errors import ConfigError


def backup(rundir: Path, file: Path) -> None:
    """Copies the memory of the node of `rundir` to `file`, which only its user can read.

    Raises:
        ConfigError: there is no such node, or `file` exists.
    """
    if not database(rundir).exists():
        raise ConfigError("node", f"no node has its state in {database(rundir).parent}")
    if file.exists():
        raise ConfigError("node", f"{file} exists; choose another name")
    copy_database(database(rundir), file)


def restore(rundir: Path, file: Path) -> None:
    """Puts a backup in the place of the database of `rundir`; the next `up` makes what is in it.

    Its directories are there (daemon.prepare), and nothing of the node runs.

    Raises:
        ConfigError: something runs, a node's state is there already, or `file` is no backup.
    """
    running = Supervisor(rundir).all()
    if running or database(rundir).exists():
        what = f"{', '.join(running)} still run" if running else "it has graphs of its own"
        raise ConfigError("node", f"{rundir}: {what}; run `headrace down` first")
    copy_database(file, database(rundir))
