# SPDX-License-Identifier: Apache-2.0
"""`headrace bench generator`: the generator's own ceiling and timing error."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("generator")
    def generator_command(
        repeats: Annotated[int, typer.Option(help="Samples of each figure.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a trial.", min=0.05)] = 0.3,
        as_json: JsonOption = False,
    ) -> None:
        """Packets per second on one and two cores, and the precision of send times."""
        from headrace.bench import generator
        from headrace.bench.rows import emit
        from headrace.traffic import TrafficError

        console = Console(stderr=True)
        try:
            rows, manifest = asyncio.run(
                generator.measure(
                    repeats, seconds, lambda line: console.print(line, highlight=False)
                )
            )
        except (TrafficError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
        if any(one.value is None and one.goal is not None for one in rows):
            raise typer.Exit(1)
