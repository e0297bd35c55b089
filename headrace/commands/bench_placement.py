# SPDX-License-Identifier: Apache-2.0
"""`headrace bench placement`: the quality and the time of plans, on seeded demands."""

from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("placement")
    def placement_command(
        seeds: Annotated[int, typer.Option(help="Large cases, with seeds from 1.", min=1)] = 3,
        chains: Annotated[int, typer.Option(help="Chains of a large case.", min=1)] = 10_000,
        servers: Annotated[int, typer.Option(help="Servers of a large case.", min=1)] = 1_000,
        as_json: Annotated[
            bool, typer.Option("--json", help="One JSON object instead of a table.")
        ] = False,
    ) -> None:
        """Plans beside their lower bound and the optimum; time of plans, arrivals and failures."""
        from headrace.bench.placement import measure
        from headrace.bench.rows import emit

        console = Console(stderr=True)

        def say(line: str) -> None:
            console.print(line, highlight=False, markup=False)

        rows, manifest = measure(say, seeds=seeds, chains=chains, servers=servers)
        emit(rows, manifest, as_json=as_json)
