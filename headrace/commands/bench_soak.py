# SPDX-License-Identifier: Apache-2.0
"""`headrace bench soak`: changes of all kinds under traffic, every packet accounted for."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("soak")
    def soak_command(
        seconds: Annotated[float, typer.Option(help="How long.", min=1)] = 300.0,
        seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
        as_json: JsonOption = False,
    ) -> None:
        """Ports, bridges, bundles, workers and guests come and go; all packets are accounted."""
        from headrace.bench.peers.openflow import Refused
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.bench.soak import suite
        from headrace.traffic.client import TrafficError

        console = Console(stderr=True)
        try:
            rows, manifest = asyncio.run(
                suite.run(
                    suite.Plan(seconds=seconds, seed=seed),
                    lambda line: console.print(line, highlight=False, markup=False),
                )
            )
        except* (PeerError, Refused, TrafficError, OSError) as errors:
            for error in errors.exceptions:
                console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from errors
        emit(rows, manifest, as_json=as_json)
        if any(each.met is False for each in rows):
            raise typer.Exit(1)
