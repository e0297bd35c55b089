# SPDX-License-Identifier: Apache-2.0
"""`headrace bench workers`: what further workers bring, and what it costs that they share."""

from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]
OnlyOption = Annotated[
    str, typer.Option(help="Cases whose name holds one of these words, by comma.")
]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("workers")
    def workers_command(
        only: OnlyOption = "",
        repeats: Annotated[int, typer.Option(help="Windows of each kind.", min=1)] = 7,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.4,
        as_json: JsonOption = False,
    ) -> None:
        """Rates with 1, 2 and more workers, of Headrace and OVS-DPDK, beside the ceiling here."""
        from headrace.bench.peers.openflow import Refused
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.bench.workers import suite

        console = Console(stderr=True)
        plan = suite.Plan(repeats, seconds)
        try:
            rows, manifest = suite.run(
                plan, only, lambda line: console.print(line, highlight=False, markup=False)
            )
        except (PeerError, Refused, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
