# SPDX-License-Identifier: Apache-2.0
"""`headrace bench predictions | side-by-side`: a node's predictions beside measurement."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headrace.commands import family

if TYPE_CHECKING:
    from headrace.bench.subject import Subject


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("predictions")
    def predictions_command(
        model: Annotated[Path, typer.Option(help="Written by `headrace model fit`.")] = Path(
            "results/model.json"
        ),
        switch: Annotated[str, typer.Option(help="headrace or ovs-dpdk.")] = "headrace",
        graphs: Annotated[int, typer.Option(help="Random graphs.", min=1)] = 20,
        seed: Annotated[int, typer.Option(help="Of the graphs.")] = 1,
        repeats: Annotated[int, typer.Option(help="Trials of each.", min=1)] = 3,
        seconds: Annotated[float, typer.Option(help="Of a trial.", min=0.05)] = 0.3,
        keep: Annotated[
            Path | None,
            typer.Option(help="File of judged graphs: the same command goes on where it ended."),
        ] = None,
        minutes: Annotated[
            float | None, typer.Option(help="After which no graph is begun.", min=0.1)
        ] = None,
        as_json: Annotated[
            bool, typer.Option("--json", help="One JSON object instead of a table.")
        ] = False,
    ) -> None:
        """Deploy random graphs on a node that predicts them, and measure what they carry."""
        from headrace.bench.errors import DeviceError
        from headrace.bench.predictions import run
        from headrace.bench.rows import emit
        from headrace.model.mechanistic.stored import ModelFileError

        console = Console(stderr=True)
        try:
            subject = _subject(model, switch)
            rows, manifest = run(
                model,
                subject,
                lambda line: console.print(line, highlight=False, markup=False),
                graphs=graphs,
                seed=seed,
                repeats=repeats,
                seconds=seconds,
                keep=keep,
                minutes=minutes,
            )
        except (DeviceError, ModelFileError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)

    @group.command("side-by-side")
    def side_by_side_command(
        model: Annotated[Path, typer.Option(help="Written by `headrace model fit`.")] = Path(
            "results/model.json"
        ),
        switch: Annotated[str, typer.Option(help="headrace or ovs-dpdk.")] = "headrace",
        most: Annotated[int, typer.Option(help="VNFs at most.", min=1, max=16)] = 8,
        pps: Annotated[float, typer.Option(help="Demand of each, per second.", min=1.0)] = 2e6,
        size: Annotated[int, typer.Option(help="Frames' bytes, FCS included.", min=64)] = 64,
        repeats: Annotated[int, typer.Option(help="Trials of each number.", min=1)] = 3,
        seconds: Annotated[float, typer.Option(help="Of a trial.", min=0.05)] = 0.3,
        as_json: Annotated[
            bool, typer.Option("--json", help="One JSON object instead of a table.")
        ] = False,
    ) -> None:
        """How many VNFs side by side fit before the rate of each falls, and what was predicted."""
        from headrace.bench.errors import DeviceError
        from headrace.bench.rows import emit
        from headrace.bench.side_by_side import measure

        console = Console(stderr=True)
        try:
            subject = _subject(model, switch)
            rows, manifest = asyncio.run(
                measure(
                    model.resolve(),
                    subject,
                    lambda line: console.print(line, highlight=False, markup=False),
                    most=most,
                    demand=pps,
                    size=size,
                    repeats=repeats,
                    seconds=seconds,
                )
            )
        except (DeviceError, ValueError, OSError) as error:
            console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error
        emit(rows, manifest, as_json=as_json)


def _subject(model: Path, switch: str) -> "Subject":
    """The switch with source and sink in its worker and VNFs on vhost-user.

    Raises:
        ValueError: there is no file of the model, or no such switch.
    """
    from headrace.bench.subject import IN_PROCESS, Subject

    if not model.exists():
        raise ValueError(f"{model} does not exist; `headrace model fit` writes it")
    return Subject.model_validate(
        {"switch": switch, "ports": IN_PROCESS, "vnf_ports": "vhost-user"}
    )
