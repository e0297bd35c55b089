# SPDX-License-Identifier: Apache-2.0
"""`headrace bench lifecycle`: how fast graphs come, change and go, and what comes back."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("lifecycle")
    def lifecycle_command(
        only: Annotated[
            str, typer.Option(help="Parts, by commas: graphs, updates, faults, many.")
        ] = "",
        idle: Annotated[int, typer.Option(help="Idle graphs of `many`.", min=2, max=1500)] = 1000,
        vnfs: Annotated[str, typer.Option(help="Sizes of `graphs`, by commas.")] = "1,10,100",
        repeats: Annotated[int, typer.Option(help="Of each figure.", min=1)] = 5,
        as_json: JsonOption = False,
    ) -> None:
        """Deploy, update, delete graphs; many graphs; losses; times back after kill -9."""
        from headrace.bench.errors import DeviceError
        from headrace.bench.lifecycle import suite
        from headrace.bench.rows import emit
        from headrace.traffic.client import TrafficError

        console = Console(stderr=True)
        parts = [part for part in only.split(",") if part] or list(suite.PARTS)
        wrong = [part for part in parts if part not in suite.PARTS]
        sizes = [int(size) for size in vnfs.split(",") if size.isdigit()]
        if wrong or not sizes or not all(1 <= size <= 128 for size in sizes):
            what = (
                f"--only {wrong[0]}: the parts are {', '.join(suite.PARTS)}"
                if wrong
                else (f"--vnfs {vnfs}: give sizes from 1 to 128, as 1,10")
            )
            console.print(f"headrace: {what}", markup=False, highlight=False)
            raise typer.Exit(2)
        plan = suite.Plan(parts=parts, vnfs=sizes, idle=idle, repeats=repeats)
        try:
            rows, manifest = asyncio.run(
                suite.run(plan, lambda line: console.print(line, highlight=False, markup=False))
            )
        except (DeviceError, TrafficError, OSError, TimeoutError) as error:
            text = str(error) or type(error).__name__
            console.print(f"headrace: {text}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
        if any(each.met is False for each in rows):
            raise typer.Exit(1)
