# SPDX-License-Identifier: Apache-2.0
"""The one command that a person types."""

import typer

app = typer.Typer(no_args_is_help=True, help="An NFV node that forwards fast and knows its cost.")


@app.callback()
def root() -> None:
    """An NFV node that forwards fast and knows what it costs."""


def main() -> None:
    """Runs the command line."""
    app()
