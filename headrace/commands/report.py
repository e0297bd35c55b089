# SPDX-License-Identifier: Apache-2.0
"""`headrace report`: writes the HTML report of a stored campaign."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from headrace.results.store import Store, StoreError


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
    ) -> None:
        """Write the report of a campaign: one self-contained HTML file."""
        # Imported late: matplotlib takes half a second to load.
        from headrace.report.html import write, write_figures

        try:
            if not results.exists():
                raise StoreError(f"{results} does not exist; `headrace run` writes it")
            with Store(results) as store:
                path = write(store, folder, campaign)
                drawn = write_figures(store, folder, campaign) if figures else []
        except StoreError as error:
            Console(stderr=True).print(f"headrace: {error}", markup=False, soft_wrap=True)
            raise typer.Exit(1) from error
        for one in (path, *drawn):
            Console().print(str(one), soft_wrap=True, highlight=False)
