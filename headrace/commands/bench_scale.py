# SPDX-License-Identifier: Apache-2.0
"""`headrace bench scale`: what idle vhost-user ports and bridges cost."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("scale")
    def scale_command(
        repeats: Annotated[int, typer.Option(help="Windows of each figure.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.2,
        as_json: JsonOption = False,
    ) -> None:
        """What 1,024 idle vhost-user ports and 256 bridges cost: rounds, rate, memory, time."""
        from headrace.bench import scale
        from headrace.bench.peers.openflow import Refused
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        plan = scale.Plan(repeats=repeats, window_s=seconds)
        try:
            rows, manifest = asyncio.run(
                scale.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
        except (PeerError, Refused, ControlError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
