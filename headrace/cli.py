# SPDX-License-Identifier: Apache-2.0
"""The one command that a person types: mounts the commands of each part."""

import importlib
import pkgutil

import typer

from headrace import commands

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="An NFV node that forwards fast and knows what it costs.",
)


@app.callback()
def root() -> None:
    """An NFV node that forwards fast and knows what it costs."""


def mount_commands() -> None:
    """Lets every module of headrace.commands add its commands: each has `register(app)`."""
    for module in sorted(pkgutil.iter_modules(commands.__path__), key=lambda found: found.name):
        importlib.import_module(f"headrace.commands.{module.name}").register(app)


mount_commands()


def main() -> None:
    """Runs the command line."""
    app()
