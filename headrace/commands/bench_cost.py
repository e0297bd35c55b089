# SPDX-License-Identifier: Apache-2.0
"""`headrace bench cost`: what a packet costs a switch at the margin, and when it is saturated."""

import asyncio
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("cost")
    def cost_command(
        ways: Annotated[str, typer.Option(help="p2p, pvp, by comma.")] = "p2p,pvp",
        switches: Annotated[
            str, typer.Option(help="headrace, ovs-dpdk, by comma.")
        ] = "headrace,ovs-dpdk",
        repeats: Annotated[int, typer.Option(help="Rounds over all loads.", min=1)] = 6,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.08,
        plot: Annotated[
            Path | None, typer.Option(help="Draw where a packet's cycles go, as SVG.")
        ] = None,
        as_json: JsonOption = False,
    ) -> None:
        """Marginal cost of Headrace, OVS-DPDK and a VNF; predicted and measured saturation."""
        from headrace.bench.chains.vnf import ChainError
        from headrace.bench.cost import figures, suite
        from headrace.bench.cost.bed import Way
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.rows import emit
        from headrace.protocols.control import ControlError
        from headrace.report.packet_cost import Stack, draw

        console = Console(stderr=True)
        known: tuple[Way, ...] = get_args(Way)
        chosen = [way for way in known if way in {word.strip() for word in ways.split(",")}]
        try:
            if not chosen:
                raise ValueError(f"--ways: give at least one of {', '.join(known)}")
            wanted = [name.strip() for name in switches.split(",") if name.strip()]
            if not wanted or set(wanted) - set(suite.SWITCHES):
                raise ValueError(f"--switches: give some of {', '.join(suite.SWITCHES)}")
            plan = suite.Plan(chosen, repeats, seconds, switches=wanted)
            rows, taken, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
            if plot is not None:
                stacks = [Stack(name, parts) for name, parts in figures.bars(taken).items()]
                plot.write_text(draw(stacks))
        except (ChainError, PeerError, ControlError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
