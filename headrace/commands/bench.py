# SPDX-License-Identifier: Apache-2.0
"""`headrace bench list | run | compare`: scenarios, campaigns of them, and their differences.

Modules that take long to load are imported by the command that needs them.
"""

import asyncio
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.settings import DEFAULT_MINUTES, QUICK_MINUTES, SCENARIOS
from headrace.results.store import Store, StoreError

if TYPE_CHECKING:
    from headrace.bench.listing import Listed

RESULTS = Path("results/headrace.sqlite")
INTERRUPTED = 130

ResultsOption = Annotated[Path, typer.Option("--results", help="The results database.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
FolderOption = Annotated[Path, typer.Option("--scenarios", help="Folder of scenario files.")]


def fail(error: Exception | str) -> typer.Exit:
    """Prints an error and returns the exit to raise."""
    Console(stderr=True).print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


def _list(console: Console, rows: "Sequence[Listed]") -> None:
    """A table for each paper, then the reasons of what lacks here, each once."""
    for paper in dict.fromkeys(row.paper for row in rows):
        table = Table(title=paper, title_justify="left", expand=False)
        for name in ("scenario", "figures", "what", "minutes", "lacking here"):
            table.add_column(name, overflow="fold")
        for row in rows:
            if row.paper != paper:
                continue
            minutes = [row.minutes_small, row.minutes_paper]
            table.add_row(
                row.name,
                row.figures,
                f"{row.what} ({row.how}{'; ' + row.note if row.note else ''})",
                " / ".join(f"{one:g}" for one in minutes if one is not None),
                ", ".join(row.lacks),
            )
        console.print(table)
    reasons = {word: reason for row in rows for word, reason in row.lacks.items()}
    for word, reason in sorted(reasons.items()):
        console.print(f"{word}: {reason}", highlight=False, markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Adds `headrace bench`."""
    group = typer.Typer(no_args_is_help=True, help="Scenarios: list them, run them, compare runs.")
    app.add_typer(group, name="bench")

    @group.callback()
    def ended_as_by_ctrl_c() -> None:
        """Scenarios: list them, run them, compare runs."""
        # SIGTERM (`timeout`, a CI job's end) ends Python at once otherwise, and what a benchmark
        # has started goes on polling the cores.
        # A shell's background job starts with SIGINT ignored, and asyncio then leaves it so.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))

    @group.command("list")
    def list_command(folder: FolderOption = SCENARIOS, as_json: JsonOption = False) -> None:
        """List the papers' experiments and the scenarios: figures, minutes, needs, what lacks.

        Minutes are of the profiles small / paper.
        """
        from headrace.bench.console import make_console
        from headrace.bench.core_plan import plan_cores
        from headrace.bench.listing import listed

        try:
            rows = listed(plan_cores(), folder)
        except ScenarioError as error:
            raise fail(error) from error
        if as_json:
            print(json.dumps({"rows": [row.as_dict() for row in rows]}))
        else:
            _list(make_console(), rows)

    @group.command("run")
    def run_command(
        names: Annotated[
            list[str] | None,
            typer.Argument(
                help="Papers, experiments (luizelli/chains-100), scenarios or files; by default "
                "the scenarios of `headrace run`."
            ),
        ] = None,
        profile: Annotated[
            str | None,
            typer.Option(help="Of papers' experiments: paper (its own parameters) or small."),
        ] = None,
        minutes: Annotated[
            float | None,
            typer.Option(
                help=f"Time budget after set-up ({DEFAULT_MINUTES:g}); of papers' experiments for "
                "each, by default what its file says."
            ),
        ] = None,
        rounds: Annotated[int, typer.Option(help="At most that many rounds.", min=1)] = 1000,
        quick: Annotated[bool, typer.Option(help="One short round, no searches.")] = False,
        seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
        simulate: Annotated[bool, typer.Option(help="Simulated devices; no nodes.")] = False,
        lab: Annotated[
            Path | None, typer.Option(help="File of a lab with NICs (docs/papers.md).")
        ] = None,
        results: ResultsOption = RESULTS,
        folder: FolderOption = SCENARIOS,
        as_json: JsonOption = False,
    ) -> None:
        """Measure scenarios and store every trial. `headrace run` measures them all."""
        from headrace.bench.console import ConsoleProgress, make_console
        from headrace.bench.experiments import find_experiments, of_papers
        from headrace.bench.lab import load_lab
        from headrace.bench.papers import measure_each
        from headrace.bench.scenario import find
        from headrace.bench.session import Options, measure
        from headrace.bench.tables import print_tables
        from headrace.results.summary import json_rows

        papers = of_papers(names or [], folder) or profile is not None
        budget = QUICK_MINUTES if quick else minutes or DEFAULT_MINUTES
        console = make_console(as_json)
        try:
            there = load_lab(lab) if lab is not None else None
            options = Options(budget, quick, 1 if quick else rounds, seed, simulate, lab=there)
            with Store(results) as store, ConsoleProgress(console) as progress:
                if papers:
                    experiments = find_experiments(names or [], profile, folder)
                    one_by_one = measure_each(
                        experiments, store, options, progress, progress.say, minutes
                    )
                    number = asyncio.run(one_by_one)
                else:
                    scenarios = find(names or [], folder)
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

    @group.command("same-build")
    def same_build_command(
        names: Annotated[
            list[str] | None, typer.Argument(help="Scenarios (names or files); all by default.")
        ] = None,
        minutes: Annotated[float, typer.Option(help="Time budget after set-up.")] = DEFAULT_MINUTES,
        rounds: Annotated[int, typer.Option(help="At most that many rounds.", min=3)] = 1000,
        seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 1,
        quick: Annotated[bool, typer.Option(help="No searches, fewer loads.")] = False,
        simulate: Annotated[bool, typer.Option(help="Simulated devices; no nodes.")] = False,
        results: ResultsOption = RESULTS,
        folder: FolderOption = SCENARIOS,
        as_json: JsonOption = False,
    ) -> None:
        """Measure one build twice, in turn (A/A); exit 1 if more than 5 % of the rows differ."""
        from headrace.bench.compare_table import LEGEND, json_row, table_of
        from headrace.bench.console import ConsoleProgress, make_console
        from headrace.bench.rows import row
        from headrace.bench.same_build import GOAL_SHARE
        from headrace.bench.scenario import find
        from headrace.bench.session import Options, measure_twice

        options = Options(minutes, quick, rounds, seed, simulate)
        console = make_console(as_json)
        try:
            scenarios = find(names or [], folder)
            with Store(results) as store, ConsoleProgress(console) as progress:
                found = asyncio.run(measure_twice(scenarios, store, options, progress))
        except (ScenarioError, StoreError, DeviceError) as error:
            raise fail(error) from error
        except (KeyboardInterrupt, asyncio.CancelledError) as error:
            console.print("interrupted; the results so far are stored, nothing is left running")
            raise typer.Exit(INTERRUPTED) from error
        if as_json:
            share = row(
                "rows that differ between two campaigns of one build",
                [100 * found.share],
                "%",
                goal=100 * GOAL_SHARE,
                better="lower",
                note=f"{len(found.changes)} rows, {found.rounds} rounds each",
            )
            share.met = found.met
            rows = [share.model_dump(), *(json_row(change) for change in found.changes)]
            manifest = {"first": found.first, "second": found.second, "results": str(results)}
            print(json.dumps({"rows": rows, "manifest": manifest}))
        else:
            console.print(table_of(found.changes, found.first, found.second))
            console.print(LEGEND, highlight=False, markup=False)
            console.print(
                f"{100 * found.share:.1f} % of {len(found.changes)} rows differ after "
                f"{found.rounds} rounds each (goal: at most {100 * GOAL_SHARE:.0f} %)",
                highlight=False,
            )
        if not found.met:
            raise typer.Exit(1)

    @group.command("compare")
    def compare_command(
        old: Annotated[int, typer.Argument(help="Number of the earlier campaign.")],
        new: Annotated[int, typer.Argument(help="Number of the later campaign.")],
        reference: Annotated[
            str, typer.Option(help="The switch whose build is the same in both campaigns.")
        ] = "ovs-dpdk",
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Show for each metric of both campaigns whether they differ; exit 1 if one got worse."""
        from headrace.bench.compare import compare
        from headrace.bench.compare_table import LEGEND, json_row, table_of
        from headrace.bench.console import make_console

        try:
            if not results.exists():
                raise StoreError(f"{results} does not exist; `headrace run` writes it")
            with Store(results) as store:
                for number in (old, new):
                    store.campaign(number)
                changes = compare(store, old, new, reference)
        except StoreError as error:
            raise fail(error) from error
        worse = [change for change in changes if change.regression]
        if as_json:
            manifest = {"old": old, "new": new, "results": str(results), "reference": reference}
            print(json.dumps({"rows": [json_row(one) for one in changes], "manifest": manifest}))
        else:
            console = make_console()
            console.print(table_of(changes, old, new))
            console.print(LEGEND, highlight=False, markup=False)
            refused = sum(change.how == "refused" for change in changes)
            if refused:
                console.print(
                    f"{refused} of {len(changes)} rows have no {reference} on the same graph and "
                    "ports beside them: what a slow phase of the machine did there can't be told "
                    "from a change, so they are not determined",
                    highlight=False,
                    markup=False,
                )
            for change in worse:
                console.print(f"worse: {change.name}", highlight=False, markup=False)
        if worse:
            raise typer.Exit(1)
