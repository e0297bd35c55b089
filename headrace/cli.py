# SPDX-License-Identifier: Apache-2.0
"""The command line: mounts the commands of each part."""

import importlib
import os
import pkgutil
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from headrace import commands
from headrace.client import CACERT_VARIABLE, NODE_VARIABLE
from headrace.machine.patience import PatienceError, patient
from headrace.machine.places import RUNDIR_VARIABLE

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="An NFV node that forwards fast and measures what forwarding costs.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    rundir: Annotated[
        Path | None, typer.Option(help="The node's directory, for the commands that have one.")
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            envvar=NODE_VARIABLE,
            help="A node elsewhere, https://HOST:PORT; its token in HEADRACE_TOKEN.",
        ),
    ] = None,
    cacert: Annotated[
        Path | None,
        typer.Option(envvar=CACERT_VARIABLE, help="Certificates that may sign for that node."),
    ] = None,
) -> None:
    """An NFV node that forwards fast and measures what forwarding costs."""
    try:
        patient(1.0)
    except PatienceError as error:
        raise typer.BadParameter(str(error)) from error
    if node is not None:
        os.environ[NODE_VARIABLE] = node
    if cacert is not None:
        os.environ[CACERT_VARIABLE] = str(cacert)
    if rundir is not None:
        os.environ[RUNDIR_VARIABLE] = str(rundir)  # the default of the commands' own --rundir


def mount_commands() -> None:
    """Calls `register(app)` of every module of headrace.commands, which adds its commands."""
    for module in sorted(pkgutil.iter_modules(commands.__path__), key=lambda found: found.name):
        importlib.import_module(f"headrace.commands.{module.name}").register(app)


mount_commands()


def main() -> None:
    """Runs the command line."""
    app()
