# SPDX-License-Identifier: Apache-2.0
"""`headrace model reproduce`: a paper's statements, computed from its published coefficients."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.commands import family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.luizelli.verdicts import Verdict

PAPERS = ("luizelli",)


def _coefficients(verdicts: "Sequence[Verdict]") -> Table:
    """Table I beside what the regression gives for its own functions."""
    table = Table("function", "printed", "regression", "", title="Table I")
    for one in verdicts:
        if set(one.states) == {0}:
            name, _, printed = one.statement.partition(": ")
            table.add_row(name, printed, one.computed, one.outcome)
    return table


def _lines(one: "Verdict") -> list[str]:
    """A statement for people."""
    from headrace.model.luizelli.verdicts import ranges

    told = {"holds": "holds for n =", "excluded": "excluded by Table I for n =", "open": "open for"}
    states = [
        f"{words} {ranges(numbers)}"
        for state, words in told.items()
        if (numbers := [n for n, found in one.states.items() if found == state])
    ]
    return [
        f"{one.outcome:>10}  {one.where}: {one.statement}",
        f"{'':12}{'; '.join(states)}",
        f"{'':12}{one.computed}",
    ]


def _json(verdicts: "Sequence[Verdict]", full: list[int], reading: str) -> str:
    rows = [
        {
            "where": one.where,
            "statement": one.statement,
            "outcome": one.outcome,
            "computed": one.computed,
            "states": {str(n): state for n, state in one.states.items() if n},
        }
        for one in verdicts
    ]
    return json.dumps({"reading": reading, "rows": rows, "holds_in_full_for": full}, indent=2)


def register(app: typer.Typer) -> None:
    """Adds the command to `headrace model`."""
    group = family(app, "model")

    @group.command("reproduce")
    def reproduce_command(
        paper: Annotated[str, typer.Argument(help="The paper: luizelli.")] = "luizelli",
        strict: Annotated[
            bool, typer.Option("--strict", help="Fail, too, if a statement holds for some n only.")
        ] = False,
        plot: Annotated[
            Path | None, typer.Option(help="Folder to draw Figures 7 to 10 into, as SVG.")
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Compute a paper's statements from its published functions; fail if one is missed."""
        from headrace.model.cost import READING
        from headrace.model.luizelli.functions import IncompleteTable
        from headrace.model.luizelli.verdicts import all_verdicts, in_full, ranges

        errors = Console(stderr=True)
        if paper not in PAPERS:
            errors.print(f"headrace model: unknown paper {paper!r}; known: {', '.join(PAPERS)}")
            raise typer.Exit(2)
        try:
            verdicts = all_verdicts()
            if plot is not None:
                from headrace.report.luizelli_figures import figures

                plot.mkdir(parents=True, exist_ok=True)
                for name, text in figures().items():
                    (plot / name).write_text(text)
        except (IncompleteTable, OSError) as error:
            errors.print(f"headrace model: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        full = in_full(verdicts)
        if as_json:
            print(_json(verdicts, full, READING))
        else:
            console = Console()
            console.print(f"Reading: {READING}\n", highlight=False)
            console.print(_coefficients(verdicts))
            for one in verdicts:
                if set(one.states) != {0}:
                    console.print("\n".join(_lines(one)), highlight=False, soft_wrap=True)
            console.print(f"All statements hold in full for n = {ranges(full)}.", highlight=False)
        missed = [one for one in verdicts if one.outcome == "missed"]
        partly = [one for one in verdicts if one.outcome == "in part"]
        for one in missed:
            errors.print(f"missed: {one.where}: {one.statement}", highlight=False, soft_wrap=True)
        if missed or (strict and partly):
            raise typer.Exit(1)
