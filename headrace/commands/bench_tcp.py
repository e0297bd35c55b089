# SPDX-License-Identifier: Apache-2.0
"""`headrace bench tcp`: TCP between two network namespaces, by veth or as guests, over a switch."""

from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("tcp")
    def tcp_command(
        repeats: Annotated[int, typer.Option(help="Windows of each switch.", min=1)] = 5,
        seconds: Annotated[int, typer.Option(help="Length of a window.", min=1)] = 2,
        as_json: JsonOption = False,
    ) -> None:
        """iperf3 with its defaults, and pings: Headrace, OVS in user space, the kernel's bridge."""
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.bench.tcp import suite
        from headrace.machine.programs import ProgramMissing

        console = Console(stderr=True)
        try:
            rows, manifest = suite.measure(
                suite.Plan(repeats, seconds),
                lambda line: console.print(line, highlight=False, markup=False),
            )
        except (PeerError, ProgramMissing, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
        if not any(row.value is not None for row in rows):
            raise typer.Exit(1)
