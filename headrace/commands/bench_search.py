# SPDX-License-Identifier: Apache-2.0
"""`headrace bench search`: one search by a named set of goals, to its end."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from headrace.bench.errors import DeviceError, ScenarioError
from headrace.commands import family
from headrace.results.store import Store, StoreError

RESULTS = Path("results/headrace.sqlite")

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace bench`."""
    group = family(app, "bench")

    @group.command("search")
    def search_command(
        goal: Annotated[str, typer.Argument(help="quick, csit, rfc2544 or tst009.")],
        trials_of: Annotated[
            float | None, typer.Option(help="Seconds of final trials, not the standard's.")
        ] = None,
        switch: Annotated[str, typer.Option(help="headrace, ovs-dpdk, linux-bridge.")] = "headrace",
        ports: Annotated[
            str, typer.Option(help="in-process, vhost-user, memif, veth.")
        ] = "in-process",
        vnfs: Annotated[int, typer.Option(help="VNFs in a chain; 0: port to port.", min=0)] = 0,
        size: Annotated[str, typer.Option(help="Bytes with FCS, or the name of a mix.")] = "64",
        loss: Annotated[
            list[float] | None, typer.Option(help="Share that may be lost; may be repeated.")
        ] = None,
        by: Annotated[str, typer.Option(help="mlrsearch, or bisection to compare.")] = "mlrsearch",
        simulate: Annotated[bool, typer.Option(help="A simulated device; no node.")] = False,
        results: Annotated[Path, typer.Option("--results", help="Results database.")] = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """Search for NDR and PDR once, within the budget of the definition; exit 1 without."""
        from headrace.bench.console import ConsoleProgress, make_console
        from headrace.bench.scenario import Scenario
        from headrace.bench.session import Options, measure
        from headrace.bench.steps import Timing, goals_of
        from headrace.bench.tables import print_tables
        from headrace.results.summary import json_rows

        console = make_console(as_json)
        try:
            scenario = Scenario.model_validate(
                {
                    "name": f"search-{goal}",
                    "title": f"One search by {goal}",
                    "question": "Which rate meets the goal?",
                    "graphs": [
                        {"shape": "chain", "vnfs": [vnfs], "placement": "gather"}
                        if vnfs
                        else {"shape": "p2p"}
                    ],
                    "subjects": [{"switch": switch, "ports": ports}],
                    "traffic": {"sizes": [int(size) if size.isdigit() else size]},
                    "measure": {
                        "search": goal,
                        "search_trial_s": trials_of,
                        "search_by": by,
                        "loss_ratios": loss,
                        # CSIT's profile has its own rate under overload: ten trials of 1 s.
                        "overload": "csit" if goal == "csit" else False,
                    },
                }
            )
        except ValidationError as error:
            told = "; ".join(str(entry["msg"]) for entry in error.errors())
            console.print(f"headrace bench search: {told}", markup=False, highlight=False)
            raise typer.Exit(1) from error
        goals = goals_of(scenario.measure, Timing())
        console.print(goals.definition, highlight=False, markup=False, soft_wrap=True)
        minutes = 1 + goals.budget_s / 60
        options = Options(minutes=minutes, rounds=1, simulate=simulate)
        try:
            with Store(results) as store:
                with ConsoleProgress(console) as progress:
                    number = asyncio.run(measure([scenario], store, options, progress))
                told_rows = json_rows(store, number)
                if as_json:
                    print(json.dumps(told_rows))
                else:
                    print_tables(console, store, number)
        except (ScenarioError, StoreError, DeviceError) as error:
            console.print(f"headrace bench search: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        if not any(row["unit"] == "pps" for row in told_rows["rows"]):
            raise typer.Exit(1)
