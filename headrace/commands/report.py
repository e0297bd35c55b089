# SPDX-License-Identifier: Apache-2.0
"""`headrace report`: writes the HTML report of a stored campaign."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.results.papers import PAPERS, Paper
from headrace.results.papers import paper as find_paper
from headrace.results.store import Store, StoreError


def _papers(names: list[str]) -> list[Paper]:
    """The named papers; StoreError with the known ones if one is unknown."""
    if names == ["all"]:
        return list(PAPERS)
    found = [find_paper(name) for name in names]
    unknown = [name for name, one in zip(names, found, strict=True) if one is None]
    if unknown:
        known = ", ".join(one.key for one in PAPERS)
        raise StoreError(f"no paper {', '.join(unknown)}; known: {known}, all")
    return [one for one in found if one is not None]


def register(app: typer.Typer) -> None:
    """Adds `headrace report`."""

    @app.command("report")
    def report_command(
        results: Annotated[Path, typer.Option("--results", help="The results database.")] = Path(
            "results/headrace.sqlite"
        ),
        folder: Annotated[Path, typer.Option("--to", help="Folder to write to.")] = Path("report"),
        campaign: Annotated[
            int | None, typer.Option("--campaign", help="Number; the newest by default.")
        ] = None,
        figures: Annotated[
            bool, typer.Option("--figures", help="Each figure as an SVG file, too.")
        ] = False,
        paper: Annotated[
            list[str] | None,
            typer.Option(help="Pages of papers' experiments instead: a paper, or all."),
        ] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print the files as JSON.")] = False,
    ) -> None:
        """Write the report of a campaign: one self-contained HTML file.

        With --paper: a page for each named paper and their index, each experiment from the newest
        campaign that has it.
        """
        # Imported late: matplotlib takes half a second to load.
        from headrace.report.html import write, write_figures
        from headrace.report.paper_pages.pages import write_papers

        try:
            if not results.exists():
                raise StoreError(f"{results} does not exist; `headrace run` writes it")
            with Store(results) as store:
                if paper:
                    written = write_papers(store, folder, _papers(paper), campaign)
                else:
                    written = [write(store, folder, campaign)]
                    written += write_figures(store, folder, campaign) if figures else []
        except StoreError as error:
            Console(stderr=True).print(f"headrace: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        if as_json:
            typer.echo(json.dumps({"files": [str(one) for one in written]}))
            return
        for one in written:
            Console().print(str(one), soft_wrap=True, highlight=False)
