# SPDX-License-Identifier: Apache-2.0
"""`headrace bench chains`: the switch's cost of a chain of VNFs, by length."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("chains")
    def chains_command(
        lengths: Annotated[str, typer.Option(help="VNFs in the chain, by comma.")] = "1,2,3,5,10",
        repeats: Annotated[int, typer.Option(help="Rounds over lengths and switches.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.6,
        as_json: JsonOption = False,
    ) -> None:
        """Cycles and rate of chains through Headrace, by its direct links, and through OVS-DPDK."""
        from headrace.bench.chains import suite
        from headrace.bench.chains.rules import parse_lengths
        from headrace.bench.chains.vnf import ChainError
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        try:
            plan = suite.Plan(parse_lengths(lengths), repeats, seconds)
            rows, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
        except (ChainError, PeerError, ControlError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
