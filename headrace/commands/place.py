# SPDX-License-Identifier: Apache-2.0
"""`headrace place FILE`: where the chains of a file go, what it costs, and why."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from headrace.placement.document import Document

PLACED, PARTLY, WRONG = 0, 3, 1
MANY = 40
"""Chains up to which each is printed."""


def _fail(message: str) -> typer.Exit:
    Console(stderr=True).print(f"headrace place: {message}", markup=False, soft_wrap=True)
    return typer.Exit(WRONG)


def _text(told: dict[str, Any], console: Console) -> None:
    gap = told["gap"]
    how = "optimal" if told["optimal"] else "" if gap is None else f"{gap:.1%} above the bound"
    types = ", ".join(f"{count} {name}" for name, count in told["used_by_type"].items())
    lines = [
        f"{len(told['chains'])} chains on {told['servers_used']} servers ({types or 'none'})",
        f"cost {told['cost']:g}, no plan costs less than {told['bound']:g}; {how}".rstrip("; "),
        f"{told['method']}, {told['seconds']:.2f} s; {told['moved']} VNFs moved",
    ]
    if told["scarce"]:
        parts = [f"{name} {share:.0%}" for name, share in told["scarce"].items() if share >= 0.01]
        lines.append(f"what the demands are short of: {', '.join(parts)}")
    if told["failures"]:
        spares = ", ".join(told["spares"]) or "none"
        lines.append(f"any one server may fail: {len(told['failures'])} answers; spares: {spares}")
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    table = Table("chain", "servers", "why")
    for name in list(told["chains"])[:MANY]:
        servers = told["chains"][name]
        table.add_row(name, " ".join(dict.fromkeys(servers)), told["reasons"][name])
    console.print(table)
    if len(told["chains"]) > MANY:
        console.print(f"and {len(told['chains']) - MANY} chains more (--json has all)")
    used = Table("server", "type", "VNFs", "cores", "memory", "switch", "link")
    for name, of in list(told["servers"].items())[:MANY]:
        shares = [f"{of[what]:.0%}" for what in ("cores", "memory", "switch", "link")]
        used.add_row(name, of["type"], str(of["vnfs"]), *shares)
    console.print(used)
    for name, why in told["unplaced"].items():
        console.print(f"not placed: {name}: {why}", highlight=False, markup=False, soft_wrap=True)
    if told["unprotected"]:
        names = ", ".join(told["unprotected"])
        console.print(f"not enough room for the failure of: {names}", markup=False, soft_wrap=True)


def _parsed(content: Any, file: Path) -> "Document":
    from headrace.placement.document import DocumentError, parse

    try:
        return parse(content)
    except DocumentError as error:
        raise DocumentError(f"{file}: {error}") from error


def with_model(content: Any, model: Path) -> Any:
    """The document with the cycles of types that name a `subject` taken from a fitted model.

    Raises:
        DocumentError: the model can't be read or has nothing of it.
    """
    from headrace.placement.document import DocumentError

    types = content.get("types") if isinstance(content, dict) else None
    if not isinstance(types, dict):
        return content
    named = {
        name: kind
        for name, kind in types.items()
        if isinstance(kind, dict)
        and isinstance(kind.get("cycles"), dict)
        and "subject" in kind["cycles"]
    }
    if not named:
        return content
    from headrace.model.mechanistic.predict import NoGrounds, switch_terms
    from headrace.model.mechanistic.stored import ModelFileError
    from headrace.model.mechanistic.stored import read as read_model

    try:
        fitted = read_model(model)
        filled = {
            name: {**kind, "cycles": switch_terms(fitted, str(kind["cycles"]["subject"]))}
            for name, kind in named.items()
        }
    except (ModelFileError, NoGrounds) as error:
        raise DocumentError(f"types.{next(iter(named))}.cycles: {error}") from error
    return {**content, "types": {**types, **filled}}


def _one_node(content: Any, file: Path, as_json: bool) -> None:
    """Plans one node and prints it."""
    from headrace.placement.document import DocumentError
    from headrace.placement.one_node import NodeFull, node_document_of, parse_node, plan_node

    try:
        plan = plan_node(parse_node(content))
    except DocumentError as error:
        raise DocumentError(f"{file}: {error}") from error
    except NodeFull as error:
        Console(stderr=True).print(f"headrace place: {file}: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(PARTLY) from error
    told = node_document_of(plan)
    if as_json:
        print(json.dumps(told))
        return
    console = Console()
    how = "optimal" if plan.optimal else f"no assignment takes less than {plan.bound:.3f}"
    lines = [f"{plan.cost:.3f} cores used; {how}", *plan.reasons]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    table = Table("core", "role", "used", "ports", "direct link to")
    for core in plan.workers:
        table.add_row(str(core), "switch", f"{plan.used[core]:.0%}", "", "")
    after = dict(plan.direct_links())
    for vnf in plan.vnfs:
        core = plan.core_of[vnf.name]
        share = f"{plan.used[core]:.0%}"
        name = f"{vnf.name} ({vnf.function})"
        table.add_row(str(core), name, share, vnf.kind, after.get(vnf.name, ""))
    console.print(table)


def register(app: typer.Typer) -> None:
    """Adds `headrace place`."""

    @app.command("place")
    def place_command(
        file: Annotated[Path, typer.Argument(help="Servers and chains, YAML: docs/placement.md.")],
        policy: Annotated[
            str,
            typer.Option(
                help="headrace, or one to compare: gather, distribute, first-fit, best-fit."
            ),
        ] = "headrace",
        exact: Annotated[
            bool | None,
            typer.Option("--exact/--no-exact", help="The optimum; by default of small cases."),
        ] = None,
        seconds: Annotated[float, typer.Option(help="Time for the search.", min=0.1)] = 40.0,
        earlier: Annotated[
            Path | None, typer.Option("--from", help="The plan in place, as --json printed it.")
        ] = None,
        failed: Annotated[
            list[str] | None, typer.Option("--failed", help="A server that is down (with --from).")
        ] = None,
        migrations: Annotated[
            int,
            typer.Option("--max-migrations", help="VNFs that may move to save cost.", min=0),
        ] = 0,
        model: Annotated[
            Path, typer.Option(help="Terms for types whose cycles name a `subject`.")
        ] = Path("results/model.json"),
        as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ) -> None:
        """Place the chains of FILE on servers, or on one node; exit 3 if not all has a place."""
        from headrace.placement.document import DocumentError, read
        from headrace.placement.plans import (
            CannotPlan,
            Earlier,
            document_of,
            make_plan,
            read_earlier,
        )
        from headrace.placement.policies import POLICIES

        if policy not in POLICIES:
            raise _fail(f"--policy {policy!r} is unknown; there are: {', '.join(POLICIES)}")
        if earlier is None and (failed or migrations):
            raise _fail("--failed and --max-migrations are about a plan in place: give --from")
        try:
            content = read(file)
            if isinstance(content, dict) and "node" in content:
                _one_node(content, file, as_json)
                return
            document = _parsed(with_model(content, model), file)
            before = None
            if earlier is not None:
                try:
                    chains = read_earlier(json.loads(earlier.read_text()))
                except (ValueError, AttributeError, CannotPlan) as error:
                    raise CannotPlan(f"{earlier}: {error}") from error
                before = Earlier(chains, tuple(failed or ()), migrations)
            problem, plan = make_plan(
                document,
                policy=policy,
                exactness={None: "auto", True: "always", False: "never"}[exact],  # type: ignore[arg-type]
                seconds=seconds,
                earlier=before,
            )
        except (DocumentError, CannotPlan, OSError) as error:
            raise _fail(str(error)) from error
        told = document_of(document, problem, plan)
        if as_json:
            print(json.dumps(told))
        else:
            _text(told, Console())
        if told["partial"]:
            raise typer.Exit(PARTLY)
