# SPDX-License-Identifier: Apache-2.0
"""`headrace bench channels`: the packet rate of each kind of channel between two VNFs."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("channels")
    def channels_command(
        only: Annotated[
            str, typer.Option(help="Kinds whose name holds one of these words, by comma.")
        ] = "",
        repeats: Annotated[int, typer.Option(help="Windows of each kind and case.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.02)] = 0.3,
        as_json: JsonOption = False,
    ) -> None:
        """Packets per second from VNF to VNF: kernel, virtio, memif, Headrace, the bare ring."""
        from headrace.bench.channels import suite
        from headrace.bench.channels.kinds import chosen
        from headrace.bench.channels.program import ChannelError
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit

        console = Console(stderr=True)
        try:
            rows, manifest = asyncio.run(
                suite.run(
                    suite.Plan(repeats, seconds),
                    chosen(only),
                    lambda line: console.print(line, highlight=False, markup=False),
                )
            )
        except (ChannelError, PeerError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
        if not any(row.value is not None for row in rows):
            raise typer.Exit(1)
