# SPDX-License-Identifier: Apache-2.0
"""The two directories of a node: what it needs while it runs, and what it remembers.

`rundir` (default /run/headrace) identifies the node: sockets, pids, configuration of what runs. It
may go with a reboot. `statedir` has the database and the logs: /var/lib/headrace for the default
`rundir`, else the same directory unless another is given. The link `<rundir>/state` leads to it, so
that every command finds it by `rundir` alone.
"""

import contextlib
from pathlib import Path

DEFAULT_RUNDIR = Path("/run/headrace")
DEFAULT_STATEDIR = Path("/var/lib/headrace")

RUNDIR_VARIABLE, STATEDIR_VARIABLE = "HEADRACE_RUNDIR", "HEADRACE_STATEDIR"
"""The environment variables that name other directories."""

_LINK = "state"


def default_statedir(rundir: Path) -> Path:
    """Where the node of `rundir` keeps its state if nothing else is said."""
    return DEFAULT_STATEDIR if rundir == DEFAULT_RUNDIR else rundir


def state_of(rundir: Path) -> Path:
    """Where the node of `rundir` has its state: where its link leads, else `rundir` itself."""
    link = rundir / _LINK
    return link.readlink() if link.is_symlink() else rundir


def link_state(rundir: Path, statedir: Path) -> None:
    """Makes the link to `statedir`, which is an absolute path; none if it is `rundir` itself."""
    link, draft = rundir / _LINK, rundir / f"{_LINK}.new"
    if statedir == rundir:
        link.unlink(missing_ok=True)
    elif state_of(rundir) != statedir:
        draft.unlink(missing_ok=True)
        draft.symlink_to(statedir)
        draft.replace(link)


def log_directory(rundir: Path) -> Path:
    """Where the node's own log and those of its processes are."""
    return state_of(rundir) / "log"


def database(rundir: Path) -> Path:
    """The node's database."""
    return state_of(rundir) / "node.sqlite"


def image_directory(rundir: Path) -> Path:
    """Where the images of the node's datastore are."""
    return state_of(rundir) / "images"


def unpacked_directory(rundir: Path) -> Path:
    """Where images of containers are unpacked; apart from the datastore's, which it collects."""
    return state_of(rundir) / "unpacked"


def database_files(file: Path) -> list[Path]:
    """The database and the files that SQLite keeps beside it."""
    return [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]


def remove_database(file: Path) -> None:
    """Removes a database that nobody has open."""
    for part in database_files(file):
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
