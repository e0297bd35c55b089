# SPDX-License-Identifier: Apache-2.0
"""`headrace run`: measures every scenario, fits the model, writes the report."""

import asyncio
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.settings import DEFAULT_MINUTES, QUICK_MINUTES, SCENARIOS
from headrace.results.store import Store, StoreError
from headrace.results.units import seconds

INTERRUPTED = 130


def _fit(console: Console, store: Store, number: int) -> None:
    from headrace.model.campaign import model_of

    model = model_of(store, number)
    store.set_fits(number, model.fits)
    console.print(
        f"cost functions: {len(model.fits)} fitted, {len(model.failures)} could not be "
        "(headrace model fit prints them beside Luizelli's Table I)",
        highlight=False,
    )


def register(app: typer.Typer) -> None:
    """Adds `headrace run`."""

    @app.command("run")
    def run_command(
        minutes: Annotated[
            float, typer.Option(help="Time for measuring, after set-up.")
        ] = DEFAULT_MINUTES,
        quick: Annotated[bool, typer.Option(help="A minute: one round, no searches.")] = False,
        seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
        simulate: Annotated[bool, typer.Option(help="Simulated devices; no nodes.")] = False,
        results: Annotated[Path, typer.Option(help="The results database.")] = Path(
            "results/headrace.sqlite"
        ),
        report: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
        folder: Annotated[Path, typer.Option("--scenarios", help="Scenario files.")] = SCENARIOS,
        as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
    ) -> None:
        """Measure this machine: all scenarios, the cost model, the report.

        Whatever cannot run here is a skipped row with its reason. Nothing is left running.
        """
        # Imported late: these load numpy, scipy and matplotlib.
        from headrace.bench.console import ConsoleProgress, make_console
        from headrace.bench.preflight import preflight
        from headrace.bench.scenario import find
        from headrace.bench.session import Options, measure
        from headrace.bench.tables import print_tables
        from headrace.report.answers import answers
        from headrace.report.html import write
        from headrace.report.view import read
        from headrace.results.summary import json_rows

        begun = time.monotonic()
        console = make_console(as_json)
        options = Options(
            QUICK_MINUTES if quick else minutes, quick, 1 if quick else 1000, seed, simulate
        )
        try:
            scenarios = find([], folder)
            if not simulate:
                for line in preflight(options.plan):
                    console.print(line, highlight=False, markup=False)
            with Store(results) as store:
                with ConsoleProgress(console) as progress:
                    number = asyncio.run(measure(scenarios, store, options, progress))
                print_tables(console, store, number)
                _fit(console, store, number)
                index = write(store, report, number)
                for answer in answers(read(store, number)):
                    console.print(answer, highlight=False, markup=False)
                if as_json:
                    print(json.dumps(json_rows(store, number)))
        except (ScenarioError, StoreError, DeviceError) as error:
            Console(stderr=True).print(f"headrace run: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            console.print("interrupted; the results so far are stored, nothing is left running")
            raise typer.Exit(INTERRUPTED) from error
        console.print(
            f"report: {index.resolve()}\nresults: campaign {number} in {results.resolve()}\n"
            f"took {seconds(time.monotonic() - begun)}; nothing is left running",
            highlight=False,
            soft_wrap=True,
        )
