# SPDX-License-Identifier: Apache-2.0
"""`headrace node backup | restore | certificate`: what the node remembers; its certificate."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headrace.client import DEFAULT_RUNDIR, Rundir, fail
from headrace.machine.places import STATEDIR_VARIABLE
from headrace.node import daemon
from headrace.node.errors import NodeError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

node = typer.Typer(no_args_is_help=True, help="What a node remembers, and its certificate.")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(node, name="node")


@node.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Write the node's graphs to a file, while it runs or not."""
    from headrace.node.deployment.backup import backup as write

    try:
        write(rundir, file)
    except (NodeError, OSError) as error:
        fail(str(error))
    if as_json:
        said = {"rundir": str(rundir), "file": str(file), "size": file.stat().st_size}
        typer.echo(json.dumps(said))


@node.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `headrace node backup` has written.")],
    rundir: Rundir = DEFAULT_RUNDIR,
    statedir: Annotated[
        Path | None, typer.Option(envvar=STATEDIR_VARIABLE, help="As for `headrace up`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the node's graphs from a file; `headrace up` then deploys them."""
    from headrace.node.deployment.backup import restore as read

    try:
        daemon.prepare(rundir, statedir)
        read(rundir, file)
    except (NodeError, OSError) as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps({"rundir": str(rundir), "file": str(file)}))
        return
    typer.echo(f"restored; `headrace up --rundir {rundir}` deploys its graphs")


@node.command()
def certificate(
    directory: Annotated[Path, typer.Argument(help="Where node.pem and node.key are written.")],
    name: Annotated[
        list[str], typer.Option(help="A host's name or address that clients use; repeat it.")
    ],
    days: Annotated[int, typer.Option(min=1, max=3650, help="How long it is valid.")] = 365,
    as_json: AsJson = False,
) -> None:
    """Make a key and a certificate that signs itself, for rest.tls of node.yaml.

    Clients take node.pem as --cacert.
    """
    from headrace.node.tls import make_self_signed

    try:
        files = make_self_signed(directory.absolute(), name, days)
    except NodeError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps({"certificate": str(files[0]), "key": str(files[1])}))
        return
    typer.echo("rest: {login: true, tls: {certificate: %s, key: %s}}" % files)  # noqa: UP031
