# SPDX-License-Identifier: Apache-2.0
"""`headrace model validate`: how far predictions are from trials that the fit has not seen."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headrace.commands import family
from headrace.commands.model import RESULTS, CampaignOption, JsonOption, ResultsOption
from headrace.results.store import StoreError

if TYPE_CHECKING:
    from headrace.model.mechanistic.windows import Window

GOALS = {"capacity": (5.0, 15.0), "saturation": (10.0, 20.0)}
"""Percent: median and 95th percentile."""


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace model`."""
    group = family(app, "model")

    @group.command("validate")
    def validate_command(
        results: ResultsOption = RESULTS,
        campaign: CampaignOption = None,
        windows_files: Annotated[
            list[Path] | None,
            typer.Option("--windows", help="A file of `bench terms`, besides; repeatable."),
        ] = None,
        as_json: JsonOption = False,
        detail: Annotated[bool, typer.Option(help="Also the errors by what was left out.")] = True,
    ) -> None:
        """Held-out errors by role: lengths, sizes, loads, functions left out of the fit in turn."""
        from headrace.bench.rows import Row, emit, row, skipped
        from headrace.commands.model import open_results
        from headrace.model.mechanistic.validate import held_out, median, percentile95
        from headrace.model.mechanistic.windows import read_windows, stored_windows

        windows: list[Window] = []
        source: dict[str, Any] = {}
        try:
            if windows_files:
                windows, source = read_windows(windows_files)
            if not windows_files or results.exists():
                with open_results(results) as store:
                    found = store.campaign(campaign)
                    measured = {one.key for one in windows}
                    # A role is judged by one way of measuring, that with more kinds of load.
                    stored = stored_windows(store, found.id)
                    windows += [one for one in stored if one.key not in measured]
                    source = {**found.manifest, "campaign": found.id, **source}
        except (StoreError, ValueError) as error:
            Console(stderr=True).print(f"headrace model: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        if not windows:
            Console(stderr=True).print(
                "headrace model: the campaign has no fixed loads with counters; scenarios with "
                "loads_pps give them",
                soft_wrap=True,
            )
            raise typer.Exit(1)
        rows: list[Row] = []

        def both(name: str, errors: list[float], kind: str | None, note: str = "") -> None:
            goals = GOALS.get(kind or "")
            percent = [100 * error for error in errors]
            for words, of, place in (("median", median, 0), ("95 %", percentile95, 1)):
                value = of(percent)
                goal = None if goals is None else goals[place]
                if value is None:
                    rows.append(skipped(f"{name}, {words}", "% error", note, goal=goal))
                    continue
                one = row(f"{name}, {words}", [value], "% error", goal=goal, better="lower")
                told = f"{len(errors)} predictions" + (f"; {note}" if note else "")
                rows.append(one.model_copy(update={"note": told, "samples": percent}))

        for errors in held_out(windows):
            note = f"{errors.disturbed} of {errors.points} points disturbed"
            why = "; ".join(errors.reasons) or "no trials"
            own = errors.all_capacity()
            both(f"{errors.key}: capacity used", own, "capacity", note if own else why)
            theirs = errors.all_power_law()
            both(f"{errors.key}: Luizelli's form", theirs, None, "" if theirs else why)
            if errors.at_load or errors.key.role != "kernel":
                both(
                    f"{errors.key}: busy share at the load",
                    errors.at_load,
                    None,
                    "" if errors.at_load else why,
                )
            saturated = errors.saturation
            both(f"{errors.key}: saturation", saturated, "saturation", "" if saturated else why)
            held = errors.all_saturation()
            both(f"{errors.key}: saturation, held out", held, "saturation", "" if held else why)
            if detail:
                for name, some in errors.capacity.items():
                    both(f"{errors.key}: capacity used, {name} left out", some, None)
                for name, some in errors.saturation_of.items():
                    both(f"{errors.key}: saturation, {name} left out", some, None)
            for name, reason in errors.no_grounds.items():
                both(f"{errors.key}: capacity used, {name} left out", [], None, reason)
        definitions = {
            "capacity used": "busy cycles by the terms at the trial's rounds and bursts, beside "
            "those counted, of trials whose length, size or load is in no fit",
            "busy share at the load": "by the polling model, which is told the rate only",
            "saturation": "predicted rate beside that under overload, where this role limited it; "
            "the fit has loads below it of the same graph and size",
            "saturation, held out": "the same, the fit being of other lengths, sizes or functions",
            "function with its ports left out": "what a VNF's function costs more than another one "
            "with other ports or behind another switch, besides what that one costs with these",
            "Luizelli's form": "log busy = a + b log pps + c log(VNFs + 1) + d log bytes",
        }
        manifest = {
            "campaign": source.get("campaign"),
            "results": [str(one) for one in (results, *(windows_files or []))],
            "machine": source.get("machine", {}),
            "definitions": definitions,
        }
        emit(rows, manifest, as_json=as_json)
