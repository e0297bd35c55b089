# SPDX-License-Identifier: Apache-2.0
"""`headrace bench resume | rerun | diff | export | import`: campaigns as they are stored.

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
from headrace.commands import family
from headrace.results.store import Store, StoreError

RESULTS = Path("results/headrace.sqlite")
INTERRUPTED = 130

ResultsOption = Annotated[Path, typer.Option("--results", help="The results database.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
MinutesOption = Annotated[
    float | None, typer.Option(help="Time budget after set-up; as before by default.")
]
NumberArgument = Annotated[int, typer.Argument(help="Number of the campaign.")]


def _fail(error: Exception | str) -> typer.Exit:
    Console(stderr=True).print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


def _open(results: Path) -> Store:
    if not results.exists():
        raise StoreError(f"{results} does not exist; `headrace run` writes it")
    return Store(results)


def _again(number: int, results: Path, minutes: float | None, resume: bool, as_json: bool) -> None:
    from headrace.bench.console import ConsoleProgress, make_console
    from headrace.bench.resume import scenarios_of
    from headrace.bench.session import Options, measure
    from headrace.bench.tables import print_tables
    from headrace.results.manifest_diff import differences
    from headrace.results.summary import json_rows

    console = make_console(as_json)
    try:
        with _open(results) as store, ConsoleProgress(console) as progress:
            campaign = store.campaign(number)
            if resume and campaign.status == "complete":
                raise StoreError(f"campaign {number} is complete; `bench rerun` repeats it")
            manifest = campaign.manifest
            options = Options(
                minutes if minutes is not None else manifest["budget_s"] / 60,
                bool(manifest.get("quick")),
                seed=int(manifest["seed"]),
                simulate=bool(manifest.get("simulated")),
            )
            scenarios = scenarios_of(manifest)
            made = asyncio.run(
                measure(scenarios, store, options, progress, number if resume else None)
            )
            if as_json:
                told = json_rows(store, made)
                if not resume:
                    changed = differences(manifest, store.campaign(made).manifest)
                    told["differences"] = [vars(one) for one in changed]
                print(json.dumps(told))
                return
            print_tables(console, store, made)
            if not resume:
                console.print(_diff_table(store, number, made))
            console.print(f"campaign {made} in {results}")
    except KeyError as error:
        raise _fail(f"campaign {number}: no {error} in its manifest: it was imported") from error
    except (ScenarioError, StoreError, DeviceError) as error:
        raise _fail(error) from error
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        console.print("interrupted; the results so far are stored, nothing is left running")
        raise typer.Exit(INTERRUPTED) from error


def _diff_table(store: Store, old: int, new: int) -> Table:
    from headrace.results.manifest_diff import differences

    table = Table(title=f"manifests of campaigns {old} and {new}", title_justify="left")
    for name in ("member", f"campaign {old}", f"campaign {new}"):
        table.add_column(name, overflow="fold")
    for one in differences(store.campaign(old).manifest, store.campaign(new).manifest):
        table.add_row(one.path, one.old, one.new)
    return table


def register(app: typer.Typer) -> None:
    """Adds the commands to `headrace bench`."""
    group = family(app, "bench")

    @group.command("resume")
    def resume_command(
        number: NumberArgument,
        minutes: MinutesOption = None,
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Go on with a campaign that was interrupted: what is missing first."""
        _again(number, results, minutes, resume=True, as_json=as_json)

    @group.command("rerun")
    def rerun_command(
        number: NumberArgument,
        minutes: MinutesOption = None,
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Repeat a campaign from its manifest, and show in what the manifests differ."""
        _again(number, results, minutes, resume=False, as_json=as_json)

    @group.command("diff")
    def diff_command(
        old: NumberArgument,
        new: NumberArgument,
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Show in what the manifests of two campaigns differ."""
        from headrace.results.manifest_diff import differences

        try:
            with _open(results) as store:
                manifests = [store.campaign(number).manifest for number in (old, new)]
                if as_json:
                    print(json.dumps([vars(one) for one in differences(*manifests)]))
                else:
                    Console().print(_diff_table(store, old, new))
        except StoreError as error:
            raise _fail(error) from error

    @group.command("export")
    def export_command(
        number: NumberArgument,
        to: Annotated[Path, typer.Argument(help="File: .parquet, .csv, .json or .md.")],
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Write a campaign for other programs; the suffix of the file says the format."""
        from headrace.results.export import export
        from headrace.results.flat import FlatError

        try:
            with _open(results) as store:
                export(store, number, to)
        except (StoreError, FlatError, OSError) as error:
            raise _fail(error) from error
        if as_json:
            print(json.dumps({"campaign": number, "file": str(to)}))

    @group.command("import")
    def import_command(
        file: Annotated[Path, typer.Argument(help="File: .parquet, .csv or .json.")],
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Store results of another machine or program as a campaign of their own."""
        from headrace.results.flat import FlatError
        from headrace.results.importing import import_file

        try:
            with Store(results) as store:
                number = import_file(store, file)
        except (StoreError, FlatError) as error:
            raise _fail(error) from error
        if as_json:
            print(json.dumps({"campaign": number, "results": str(results)}))
            return
        Console().print(f"campaign {number} in {results}", highlight=False)
