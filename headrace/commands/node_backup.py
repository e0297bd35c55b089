# SPDX-License-Identifier: Apache-2.0
"""`headrace node backup | restore`: what the node remembers, to a file and back."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.client import DEFAULT_RUNDIR, Rundir, fail
from headrace.machine.places import STATEDIR_VARIABLE
from headrace.node import daemon
from headrace.node.errors import NodeError

node = typer.Typer(no_args_is_help=True, help="What a node remembers.")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(node, name="node")


@node.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    rundir: Rundir = DEFAULT_RUNDIR,
) -> None:
    """Write the node's graphs to a file, while it runs or not."""
    from headrace.node.deployment.backup import backup as write

    try:
        write(rundir, file)
    except (NodeError, OSError) as error:
        fail(str(error))


@node.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `headrace node backup` has written.")],
    rundir: Rundir = DEFAULT_RUNDIR,
    statedir: Annotated[
        Path | None, typer.Option(envvar=STATEDIR_VARIABLE, help="As for `headrace up`.")
    ] = None,
) -> None:
    """Read the node's graphs from a file; `headrace up` then deploys them."""
    from headrace.node.deployment.backup import restore as read

    try:
        daemon.prepare(rundir, statedir)
        read(rundir, file)
    except (NodeError, OSError) as error:
        fail(str(error))
    typer.echo(f"restored; `headrace up --rundir {rundir}` deploys its graphs")
