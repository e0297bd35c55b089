# SPDX-License-Identifier: Apache-2.0
"""`headrace bench pvp`: a VNF between two vhost-user ports of a switch."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("pvp")
    def pvp_command(
        vnfs: Annotated[
            str, typer.Option(help="pass, testpmd-packed, testpmd-split, by comma.")
        ] = "pass,testpmd-packed,testpmd-split",
        repeats: Annotated[int, typer.Option(help="Windows of each figure.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.5,
        as_json: JsonOption = False,
    ) -> None:
        """Rate and cycles of a VNF behind Headrace and OVS-DPDK, and testpmd's as the floor."""
        from headrace.bench.chains.vnf import ChainError
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.pvp import suite
        from headrace.bench.rows import emit
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        try:
            plan = suite.Plan(suite.parse_kinds(vnfs), repeats, seconds)
            rows, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
        except (ChainError, PeerError, ControlError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
