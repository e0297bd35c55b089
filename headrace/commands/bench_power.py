# SPDX-License-Identifier: Apache-2.0
"""`headrace bench power`: watts idle, polling and at each load, and joules of a packet."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("power")
    def power_command(
        repeats: Annotated[int, typer.Option(help="Windows of each state.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.1)] = 5.0,
        as_json: JsonOption = False,
    ) -> None:
        """Power by RAPL, IPMI or Redfish: idle, polling, under load; energy of a packet."""
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.power import suite
        from headrace.bench.rows import emit

        console = Console(stderr=True)
        try:
            plan = suite.Plan(repeats, seconds)
            rows, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
        except (PeerError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
