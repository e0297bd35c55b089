# SPDX-License-Identifier: Apache-2.0
"""`headrace bench terms`: windows that the model is fitted to."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("terms")
    def terms_command(
        output: Annotated[
            Path, typer.Option(help="File for `headrace model fit --windows`.")
        ] = Path("results/windows.json"),
        switch: Annotated[str, typer.Option(help="headrace or ovs-dpdk.")] = "headrace",
        lengths: Annotated[str, typer.Option(help="VNFs in a row, by comma.")] = "0,1,2",
        ports: Annotated[
            str, typer.Option(help="Of VNFs: vhost-user, shm, memif, by comma; one VNF for each.")
        ] = "vhost-user",
        functions: Annotated[
            str, typer.Option(help="Of VNFs: pass, firewall, cpu, by comma; one VNF for each.")
        ] = "pass",
        repeats: Annotated[int, typer.Option(help="Rounds over all loads.", min=1)] = 8,
        minutes: Annotated[
            float, typer.Option(help="For the rounds, after all has started.", min=0.1)
        ] = 4.0,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.02)] = 0.08,
        as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Measure switch and VNFs at many loads and bursts, for the model's terms.

        Chains of the lengths have the first kind of ports and the first function; of every other
        pair of a kind and a function there is one VNF alone.
        """
        from headrace.bench.chains.vnf import ChainError
        from headrace.bench.peers.systems import PeerError
        from headrace.bench.terms import suite, windows
        from headrace.machine.tsc import tsc_hz
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        try:
            plan = suite.Plan(
                switch,
                suite.setups_of(switch, _words(lengths), _words(ports), _words(functions)),
                repeats=repeats,
                seconds=60 * minutes,
                window_s=seconds,
            )
            taken, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
            found = windows.windows_of(taken, tsc_hz())
            windows.write(output, found, manifest)
        except (ChainError, PeerError, ControlError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        if as_json:
            print(json.dumps({"windows": len(found), "file": str(output), "manifest": manifest}))
        else:
            console.print(
                f"{len(found)} windows in {output}; headrace model fit --windows {output}"
            )
