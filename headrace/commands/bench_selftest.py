# SPDX-License-Identifier: Apache-2.0
"""`headrace bench selftest`: faults of known size that the bench has to find."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("selftest")
    def selftest_command(
        only: Annotated[str, typer.Option(help="Parts, by comma; all by default.")] = "",
        repeats: Annotated[int, typer.Option(help="Windows of each fault.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.2,
        as_json: JsonOption = False,
    ) -> None:
        """Test the bench itself by known faults and searches; exit 1 if a goal is missed."""
        from headrace.bench.chains.vnf import ChainError
        from headrace.bench.manifest import machine, versions
        from headrace.bench.rows import emit
        from headrace.bench.selftest import registry
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        settings = registry.Settings(repeats, seconds)
        try:
            outcome = asyncio.run(
                registry.run(
                    registry.chosen(only),
                    settings,
                    lambda line: console.print(line, highlight=False, markup=False),
                )
            )
        except (ChainError, ControlError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        manifest = {"machine": machine(), "versions": versions(), "windows": vars(settings)}
        manifest["took_s"] = outcome.took_s
        emit(outcome.rows, manifest, as_json=as_json)
        if any(row.met is False for row in outcome.rows):
            raise typer.Exit(1)
