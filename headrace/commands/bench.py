# SPDX-License-Identifier: Apache-2.0
"""`headrace bench list | run | compare`: scenarios, campaigns of them, and their differences.

Modules that take long to load are imported by the command that needs them.
"""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.settings import DEFAULT_MINUTES, QUICK_MINUTES, SCENARIOS
from headrace.results.store import Store, StoreError
from headrace.results.units import quantity

RESULTS = Path("results/headrace.sqlite")
INTERRUPTED = 130

ResultsOption = Annotated[Path, typer.Option("--results", help="The results database.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
FolderOption = Annotated[Path, typer.Option("--scenarios", help="Folder of scenario files.")]


def fail(error: Exception | str) -> typer.Exit:
    """Prints an error and returns the exit to raise."""
    Console(stderr=True).print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


def _list(folder: Path) -> Table:
    from headrace.bench.scenario import find

    table = Table(show_lines=True)
    for name in ("scenario", "question", "cases", "subjects", "papers"):
        table.add_column(name, overflow="fold")
    for scenario in find([], folder):
        subjects = ", ".join(f"{subject.switch}/{subject.ports}" for subject in scenario.subjects)
        table.add_row(
            scenario.name,
            scenario.question,
            str(len(scenario.cases())),
            subjects,
            ", ".join(scenario.papers),
        )
    return table


def _compare_table(store: Store, old: int, new: int) -> Table:
    from headrace.bench.compare import compare

    table = Table(title=f"campaign {new} / campaign {old}")
    for name in ("scenario", "case", "metric"):
        table.add_column(name, overflow="fold")
    for name in ("old", "new", "ratio", "interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for change in compare(store, old, new):
        ratio = change.ratio
        unit = "pps" if change.metric in {"ndr", "pdr", "mrr"} else "ns"
        unit = unit if not change.metric.startswith(("cpu", "cycles", "loss")) else "%"
        table.add_row(
            change.case.scenario,
            change.case.name,
            f"{change.metric} {change.point}".strip(),
            quantity(change.old, unit),
            quantity(change.new, unit),
            f"{ratio.value:.2f}",
            "" if ratio.low is None else f"{ratio.low:.2f} .. {ratio.high:.2f}",
            ratio.verdict,
        )
    return table


def register(app: typer.Typer) -> None:
    """Adds `headrace bench`."""
    group = typer.Typer(no_args_is_help=True, help="Scenarios: list them, run them, compare runs.")
    app.add_typer(group, name="bench")

    @group.command("list")
    def list_command(folder: FolderOption = SCENARIOS) -> None:
        """List the scenarios and what each measures."""
        try:
            Console().print(_list(folder))
        except ScenarioError as error:
            raise fail(error) from error

    @group.command("run")
    def run_command(
        names: Annotated[
            list[str] | None, typer.Argument(help="Scenarios (names or files); all by default.")
        ] = None,
        minutes: Annotated[float, typer.Option(help="Time budget after set-up.")] = DEFAULT_MINUTES,
        rounds: Annotated[int, typer.Option(help="At most that many rounds.", min=1)] = 1000,
        quick: Annotated[bool, typer.Option(help="One short round, no searches.")] = False,
        seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
        simulate: Annotated[bool, typer.Option(help="Simulated devices; no nodes.")] = False,
        results: ResultsOption = RESULTS,
        folder: FolderOption = SCENARIOS,
        as_json: JsonOption = False,
    ) -> None:
        """Measure scenarios and store every trial. `headrace run` measures them all."""
        from headrace.bench.console import ConsoleProgress, make_console
        from headrace.bench.scenario import find
        from headrace.bench.session import Options, measure
        from headrace.bench.tables import print_tables
        from headrace.results.summary import json_rows

        options = Options(
            QUICK_MINUTES if quick else minutes, quick, 1 if quick else rounds, seed, simulate
        )
        console = make_console(as_json)
        try:
            scenarios = find(names or [], folder)
            with Store(results) as store, ConsoleProgress(console) as progress:
                number = asyncio.run(measure(scenarios, store, options, progress))
                if as_json:
                    print(json.dumps(json_rows(store, number)))
                    return
                print_tables(console, store, number)
                console.print(f"campaign {number} in {results}")
        except (ScenarioError, StoreError, DeviceError) as error:
            raise fail(error) from error
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            console.print("interrupted; the results so far are stored, nothing is left running")
            raise typer.Exit(INTERRUPTED) from error

    @group.command("compare")
    def compare_command(
        old: Annotated[int, typer.Argument(help="Number of the earlier campaign.")],
        new: Annotated[int, typer.Argument(help="Number of the later campaign.")],
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Show for each metric of both campaigns whether they differ."""
        from headrace.bench.compare import compare

        try:
            if not results.exists():
                raise StoreError(f"{results} does not exist; `headrace run` writes it")
            with Store(results) as store:
                for number in (old, new):
                    store.campaign(number)
                if as_json:
                    rows = [
                        {
                            "name": f"{change.case.scenario}/{change.case.name} {change.metric}"
                            + (f" at {change.point}" if change.point else ""),
                            "value": change.ratio.value,
                            "unit": "ratio",
                            "goal": None,
                            "met": None,
                            "samples": change.ratio.pairs,
                            "low": change.ratio.low,
                            "high": change.ratio.high,
                            "verdict": change.ratio.verdict,
                        }
                        for change in compare(store, old, new)
                    ]
                    manifest = {"old": old, "new": new, "results": str(results)}
                    print(json.dumps({"rows": rows, "manifest": manifest}))
                    return
                Console().print(_compare_table(store, old, new))
        except StoreError as error:
            raise fail(error) from error
