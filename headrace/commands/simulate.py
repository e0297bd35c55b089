# SPDX-License-Identifier: Apache-2.0
"""`headrace simulate`: chains that come and go, under several placement policies."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def register(app: typer.Typer) -> None:
    """Adds `headrace simulate`."""

    @app.command("simulate")
    def simulate_command(
        policies: Annotated[
            str, typer.Option(help="By comma; all by default.")
        ] = "gather,distribute,first-fit,best-fit,headrace",
        hours: Annotated[float, typer.Option(help="Length.", min=0.1)] = 48.0,
        per_hour: Annotated[float, typer.Option(help="Chains that come.", min=0.1)] = 40.0,
        lifetime: Annotated[float, typer.Option(help="Mean, in hours.", min=0.01)] = 8.0,
        servers: Annotated[int, typer.Option(help="Of three types.", min=3)] = 60,
        consolidate: Annotated[
            int, typer.Option(help="VNFs that may be moved per hour in one more run.", min=0)
        ] = 20,
        seed: Annotated[int, typer.Option(help="Of all random choices.")] = 1,
        plot: Annotated[Path | None, typer.Option(help="Servers and refusals over time.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Arrivals and departures of chains: the tenant's and the operator's cost by policy."""
        import numpy as np

        from headrace.placement.policies import POLICIES
        from headrace.placement.simulation import Setting, simulate

        wanted = [name.strip() for name in policies.split(",") if name.strip()]
        unknown = sorted(set(wanted) - set(POLICIES))
        if unknown or not wanted:
            known = ", ".join(POLICIES)
            text = (
                f"headrace simulate: --policies: {', '.join(unknown) or 'none'}; there are: {known}"
            )
            Console(stderr=True).print(text, markup=False, soft_wrap=True)
            raise typer.Exit(1)
        setting = Setting(hours, per_hour, lifetime, servers, seed, consolidate)
        outcomes = simulate(setting, wanted)
        if plot is not None:
            from headrace.report.simulation_figure import draw

            plot.write_text(draw(outcomes))
        if as_json:
            rows = [{**asdict(one), "refused_share": one.refused_share} for one in outcomes]
            print(json.dumps({"setting": asdict(setting), "policies": rows}))
            return
        table = Table(
            "policy", "refused", "latency, us (median, 95 %)", "servers", "cost", "switch cores",
            "runs / VNFs", "moved", "ms / chain",
            title=f"{outcomes[0].arrivals} chains in {hours:g} h on {servers} servers, seed {seed}",
        )  # fmt: skip
        for one in outcomes:
            latency = np.percentile(one.latency_us, [50, 95]) if one.latency_us else [0, 0]
            table.add_row(
                one.policy,
                f"{one.refused} ({one.refused_share:.1%})",
                f"{latency[0]:.0f}, {latency[1]:.0f}",
                f"{one.servers:.1f}",
                f"{one.cost:.0f}",
                f"{one.switch_cores:.1f}",
                f"{one.runs / max(1, one.vnfs):.2f}",
                str(one.migrations),
                f"{1000 * one.seconds / max(1, one.arrivals):.1f}",
            )
        Console().print(table)
