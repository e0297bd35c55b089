# SPDX-License-Identifier: Apache-2.0
"""`headrace model fit | roles | power-law`: fits cost functions to a campaign.

Modules that take long to load (numpy, scipy) are imported by the command that needs them, since
all commands load this module.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from headrace.results import Fit
from headrace.results.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.model.campaign import CampaignModel
    from headrace.model.roles import Comparison, RoleCost

RESULTS = Path("results/headrace.sqlite")

ResultsOption = Annotated[Path, typer.Option("--results", help="The results database.")]
CampaignOption = Annotated[
    int | None, typer.Option("--campaign", help="Number of the campaign; the newest by default.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def open_results(results: Path) -> Store:
    """The results database; StoreError if there is none."""
    if not results.exists():
        raise StoreError(f"{results} does not exist; `headrace run` writes it")
    return Store(results)


def _fit_table(model: "CampaignModel") -> Table:
    from headrace.results import published

    table = Table(title="log C = α·log pps + β·log length + γ, C in percent of one core")
    for name in ("switch", "placement", "bytes", "α ± se", "β ± se", "γ ± se", "R²", "cv error"):
        table.add_column(name)
    table.add_column("points", justify="right")
    for entry in model.fits:
        table.add_row(
            entry.switch,
            entry.placement,
            str(entry.packet_bytes),
            f"{entry.alpha:.3f} ± {entry.alpha_se:.3f}",
            f"{entry.beta:.3f} ± {entry.beta_se:.3f}",
            f"{entry.gamma:.3f} ± {entry.gamma_se:.3f}",
            f"{entry.r2:.3f}",
            f"{100 * entry.cv_error:.0f} %",
            f"{entry.points}{' disturbed' if entry.disturbed else ''}",
        )
    for row in published.cost_functions():
        table.add_row(
            f"[dim]{row.switch} (Luizelli, Table I)",
            f"[dim]{row.placement}",
            f"[dim]{row.packet_bytes}",
            *(f"[dim]{value:.3f}" for value in (row.alpha, row.beta, row.gamma)),
            "",
            "",
            "",
        )
    return table


def _cycle_table(model: "CampaignModel") -> Table:
    table = Table(title="cycles per packet = a + b·bytes + c·hops")
    for name in ("switch", "a ± se", "b ± se (per byte)", "c ± se (per hop)", "R²", "points"):
        table.add_column(name)
    for entry in model.cycle_fits:
        table.add_row(
            entry.switch,
            f"{entry.per_packet:.0f} ± {entry.per_packet_se:.0f}",
            f"{entry.per_byte:.3f} ± {entry.per_byte_se:.3f}",
            f"{entry.per_hop:.0f} ± {entry.per_hop_se:.0f}",
            f"{entry.r2:.3f}",
            str(entry.points),
        )
    return table


def _role_tables(costs: "Sequence[RoleCost]", placements: "Sequence[Comparison]") -> list[Table]:
    from headrace.results.units import digits

    table = Table(title="cycles of a packet through the graph, by role")
    for name in ("subject", "graph", "bytes", "role", "at load", "full bursts"):
        table.add_column(name, overflow="fold")
    for cost in costs:
        ordered = sorted(cost.at_load.items(), key=lambda one: -one[1])
        loads = ", ".join(f"{load} {digits(value)}" for load, value in ordered)
        if cost.resolution is not None:
            loads += f" (± {digits(cost.resolution)}: the clock of softirq time)"
        full = cost.reason if cost.marginal is None else digits(cost.marginal)
        full += " (disturbed)" if cost.disturbed else ""
        table.add_row(cost.case.subject, cost.case.graph, cost.case.size, cost.role, loads, full)
    both = Table(title="n chains of n VNFs on n servers: cycles of a packet, all servers together")
    for name in ("subject", "bytes", "n", "load", "gather", "distribute", "distribute/gather"):
        both.add_column(name, overflow="fold")
    for one in placements:
        told = [
            " + ".join(f"{role} {digits(value)}" for role, value in side.items())
            for side in (one.gather, one.distribute)
        ]
        gathered, spread = one.total
        ratio = digits(spread / gathered)
        both.add_row(one.subject, one.size, str(one.length), one.load, *told, ratio)
    return [table, both]


def _fail(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"headrace model: {error}", markup=False, soft_wrap=True)
    return typer.Exit(1)


def _predict_json(
    model: "CampaignModel", switch: str, pps: float, length: int, size: int
) -> list[dict[str, object]]:
    from headrace.model.campaign import PLACEMENTS
    from headrace.model.cost import select
    from headrace.model.fit import predict

    rows = []
    for placement in PLACEMENTS:
        found = select(model.fits, switch, placement, size)
        if not isinstance(found, Fit):
            continue
        points = model.points[(found.switch, found.placement, found.packet_bytes)]
        guess = predict(found, pps, length, points)
        rows.append({"placement": placement, "packet_bytes": found.packet_bytes, **vars(guess)})
    return rows


def register(app: typer.Typer) -> None:
    """Adds `headrace model`."""
    group = typer.Typer(
        no_args_is_help=True,
        help="What packets cost: fit it, predict graphs, check the predictions.",
    )
    app.add_typer(group, name="model")

    @group.command("fit")
    def fit_command(
        results: ResultsOption = RESULTS,
        campaign: CampaignOption = None,
        windows: Annotated[
            list[Path] | None,
            typer.Option(help="Fit the terms to this file of `bench terms` instead; repeatable."),
        ] = None,
        output: Annotated[
            Path, typer.Option(help="File of the terms by role, for predict, explain and nodes.")
        ] = Path("results/model.json"),
        as_json: JsonOption = False,
    ) -> None:
        """Fit a campaign: the terms of each role, and Luizelli's cost functions with Table I."""
        from headrace.model.campaign import model_of
        from headrace.model.cost import READING
        from headrace.model.mechanistic.fitting import fit_all
        from headrace.model.mechanistic.stored import dump, write
        from headrace.model.mechanistic.windows import read_windows, stored_windows

        if windows:
            try:
                found, source = read_windows(windows)
                made = fit_all(found, source)
                if not made.roles:
                    raise ValueError(f"too few windows: {'; '.join(made.failures.values())}")
                write(made, output)
            except (ValueError, OSError) as error:
                raise _fail(error) from error
            if as_json:
                print(json.dumps({"terms": dump(made)}))
            else:
                text = f"terms of {len(made.roles)} roles: {output} (headrace model show)"
                Console().print(text, highlight=False, soft_wrap=True)
                for what, reason in made.failures.items():
                    told = f"not fitted: {what}: {reason}"
                    Console(stderr=True).print(told, markup=False, soft_wrap=True)
            return
        try:
            with open_results(results) as store:
                stored = store.campaign(campaign)
                number = stored.id
                model = model_of(store, number)
                store.set_fits(number, model.fits)
                names = ("machine", "versions")
                manifest = {name: stored.manifest.get(name, {}) for name in names}
                manifest["campaign"] = number
                terms = fit_all(stored_windows(store, number), manifest)
            if terms.roles:
                write(terms, output)
        except (StoreError, OSError) as error:
            raise _fail(error) from error
        if as_json:
            print(
                json.dumps(
                    {
                        "reading": READING,
                        "fits": [vars(entry) for entry in model.fits],
                        "cycles": [vars(entry) for entry in model.cycle_fits],
                        "failures": model.failures,
                        "terms": dump(terms),
                    }
                )
            )
            return
        console = Console()
        console.print(f"Reading: {READING}\n", highlight=False)
        console.print(_fit_table(model))
        console.print(_cycle_table(model))
        for what, reason in {**model.failures, **terms.failures}.items():
            console.print(f"not fitted: {what}: {reason}", markup=False)
        if terms.roles:
            text = f"terms of {len(terms.roles)} roles: {output} (headrace model show prints them)"
        else:
            text = "no role could be fitted: the campaign has too few fixed loads with counters"
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    @group.command("roles")
    def roles_command(
        results: ResultsOption = RESULTS,
        campaign: CampaignOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """What a packet costs the switch, the VNFs, the generator; gather beside distribute."""
        from headrace.model.roles import compare_placements, role_costs

        try:
            with open_results(results) as store:
                costs = role_costs(store, store.campaign(campaign).id)
        except StoreError as error:
            raise _fail(error) from error
        placements = compare_placements(costs)
        if as_json:
            rows = [{**vars(one), "case": one.case.name} for one in costs]
            print(json.dumps({"rows": rows, "placements": [vars(one) for one in placements]}))
            return
        for table in _role_tables(costs, placements):
            Console().print(table)

    @group.command("power-law")
    def power_law_command(
        switch: Annotated[str, typer.Option(help="Switch and ports, as `model fit` names them.")],
        pps: Annotated[float, typer.Option(help="Packets per second of one chain.")],
        length: Annotated[int, typer.Option(help="VNFs in the chain.", min=1)],
        size: Annotated[int, typer.Option(help="Frame size in bytes, with FCS.")] = 100,
        results: ResultsOption = RESULTS,
        campaign: CampaignOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Luizelli's form: the switch's cost of a chain, and which placement is cheaper."""
        from headrace.model.campaign import PLACEMENTS, model_of
        from headrace.model.cost import READING, advise, select
        from headrace.model.fit import predict

        if pps <= 0:
            raise _fail(ValueError("--pps must be positive"))
        try:
            with open_results(results) as store:
                model = model_of(store, store.campaign(campaign).id)
        except StoreError as error:
            raise _fail(error) from error
        known = sorted({entry.switch for entry in model.fits})
        if switch not in known:
            known_text = ", ".join(known) or "none"
            raise _fail(ValueError(f"no cost function for {switch!r} (known: {known_text})"))
        rows = _predict_json(model, switch, pps, length, size)
        gather = select(model.fits, switch, "gather", size)
        distribute = select(model.fits, switch, "distribute", size)
        if as_json:
            print(json.dumps({"reading": READING, "rows": rows}))
            return
        console = Console()
        for placement in PLACEMENTS:
            found = select(model.fits, switch, placement, size)
            if not isinstance(found, Fit):
                console.print(f"{placement}: no cost function")
                continue
            points = model.points[(found.switch, found.placement, found.packet_bytes)]
            guess = predict(found, pps, length, points)
            note = " (outside what was measured)" if guess.extrapolated else ""
            console.print(
                f"{placement}: {guess.cpu_percent:.2f} % of one core "
                f"[{guess.low:.2f} .. {guess.high:.2f}]{note}",
                highlight=False,
                markup=False,
            )
        if gather and distribute:
            advice = advise(gather, distribute, pps, length)
            console.print(
                f"{length} such chains on {length} servers: gather {advice.gather_percent:.1f} %, "
                f"distribute {advice.distribute_percent:.1f} % of a core: {advice.placement}",
                highlight=False,
            )
