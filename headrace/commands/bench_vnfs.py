# SPDX-License-Identifier: Apache-2.0
"""`headrace bench vnfs`: packets per second and cycles per packet of every sample VNF."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from headrace.commands import family

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("vnfs")
    def vnfs_command(
        only: Annotated[str, typer.Option(help="Functions whose name holds this.")] = "",
        repeats: Annotated[int, typer.Option(help="Windows of each function and size.", min=1)] = 3,
        seconds: Annotated[float, typer.Option(help="Length of a window.", min=0.05)] = 0.3,
        as_json: JsonOption = False,
    ) -> None:
        """Mpps and cycles per packet of every VNF on one core, at 64 bytes, IMIX and 1518."""
        from headrace.bench.rows import emit
        from headrace.bench.vnfs import suite
        from headrace.bench.vnfs.cases import CASES
        from headrace.bench.vnfs.program import VnfError
        from headrace.protocols.control import ControlError

        console = Console(stderr=True)
        chosen = [case for case in CASES if only in case.name]
        try:
            if not chosen:
                raise VnfError(f"no function's name contains {only!r}")
            rows, manifest = asyncio.run(
                suite.run(
                    suite.Plan(repeats, seconds),
                    chosen,
                    lambda line: console.print(line, highlight=False),
                )
            )
        except (VnfError, ControlError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)
