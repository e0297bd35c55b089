# SPDX-License-Identifier: Apache-2.0
"""`headrace bench latency`: p50, p99 and p99.9 at fractions of the PDR, beside OVS-DPDK."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("latency")
    def latency_command(
        repeats: Annotated[int, typer.Option(help="Trials of each load that count.", min=1)] = 5,
        seconds: Annotated[float, typer.Option(help="Length of a trial.", min=0.05)] = 0.25,
        as_json: JsonOption = False,
    ) -> None:
        """Latency through vhost-user at 1, 10, 50 and 90 % of the PDR, Headrace and OVS-DPDK."""
        from headrace.bench.latency import suite
        from headrace.bench.peers.openflow import Refused
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.traffic.client import TrafficError

        console = Console(stderr=True)
        try:
            rows, manifest = asyncio.run(
                suite.run(
                    suite.Plan(repeats, seconds),
                    lambda line: console.print(line, highlight=False, markup=False),
                )
            )
        except (PeerError, Refused, TrafficError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
