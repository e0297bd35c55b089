# SPDX-License-Identifier: Apache-2.0
"""`headrace bench terms`: windows that the model is fitted to, by the means of `bench cost`."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("terms")
    def terms_command(
        output: Annotated[
            Path, typer.Option(help="File for `headrace model fit --windows`.")
        ] = Path("results/windows.json"),
        switches: Annotated[
            str, typer.Option(help="headrace, ovs-dpdk, by comma.")
        ] = "headrace,ovs-dpdk",
        repeats: Annotated[int, typer.Option(help="Rounds over all loads.", min=1)] = 2,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.15,
        as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Measure switch and VNF at many loads and bursts, for the model's terms."""
        from headrace.bench import cost_windows
        from headrace.bench.chains.vnf import ChainError
        from headrace.bench.cost import suite
        from headrace.bench.peers.systems import PeerError
        from headrace.machine.tsc import tsc_hz
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        wanted = [name.strip() for name in switches.split(",") if name.strip()]
        try:
            if not wanted or set(wanted) - set(suite.SWITCHES):
                raise ValueError(f"--switches: give some of {', '.join(suite.SWITCHES)}")
            plan = suite.Plan(("p2p", "pvp"), repeats, seconds, switches=wanted)
            _, taken, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
            windows = cost_windows.windows_of(taken, tsc_hz())
            cost_windows.write(output, windows, manifest)
        except (ChainError, PeerError, ControlError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        if as_json:
            print(json.dumps({"windows": len(windows), "file": str(output), "manifest": manifest}))
        else:
            console.print(
                f"{len(windows)} windows in {output}; headrace model fit --windows {output}"
            )
