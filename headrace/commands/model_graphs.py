# SPDX-License-Identifier: Apache-2.0
"""`headrace model show | predict | explain | compare | capacity`: from a fitted model's file.

GRAPH is an NF-FG (a JSON file) or a graph of the bench by its name: p2p, pvp (one VNF), pvvpN (N in
a chain), pvpvN (N side by side).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir
from headrace.commands import family
from headrace.model.finite import finite

if TYPE_CHECKING:
    from headrace.model.mechanistic.capacity import Capacity
    from headrace.model.mechanistic.fitting import Fitted
    from headrace.model.mechanistic.predict import Graph, Prediction

MODEL = Path("results/model.json")
PARTIAL, UNMET = 3, 4

ModelOption = Annotated[Path, typer.Option("--model", help="Written by `headrace model fit`.")]
SubjectOption = Annotated[
    str | None, typer.Option("--subject", help="Switch and ports, as `headrace model show` lists.")
]
SizeOption = Annotated[float, typer.Option("--size", help="Frame size in bytes, with FCS.")]
PpsOption = Annotated[
    float | None, typer.Option("--pps", help="Demand: packets per second through the graph.")
]
FunctionOption = Annotated[
    str | None, typer.Option("--function", help="Of every VNF, instead of the graph's own.")
]
AnyOption = Annotated[
    bool, typer.Option("--other-machine", help="Accept a model of another machine.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object.")]


class _Wrong(Exception):
    """What was asked for can't be answered."""


def fail(error: Exception) -> typer.Exit:
    """Prints an error; the exit status is 1."""
    Console(stderr=True).print(f"headrace model: {error}", markup=False, soft_wrap=True)
    return typer.Exit(1)


def load(path: Path, other_machine: bool) -> "tuple[Fitted, list[str]]":
    """The model, and in what its machine differs if that was accepted."""
    from headrace.bench.manifest import machine
    from headrace.model.mechanistic.stored import differences, read

    fitted = read(path)
    differs = differences(fitted.manifest, machine())
    if differs and not other_machine:
        raise _Wrong(
            f"{path} is of another machine ({'; '.join(differs)}): fit one here, or accept it with "
            f"--other-machine"
        )
    return fitted, differs


def _subject(fitted: "Fitted", wanted: str | None) -> str:
    known = fitted.subjects()
    if wanted is None:
        if not known:
            raise _Wrong("the model has no switch: its results had too few trials with counters")
        return next((one for one in known if one.startswith("headrace/")), known[0])
    if wanted not in known:
        raise _Wrong(
            f"--subject {wanted!r}: nothing was measured of it; there is: {', '.join(known)}"
        )
    return wanted


def read_graph(
    text: str, subject: str, function: str | None, known: Mapping[str, str] | None = None
) -> "tuple[Graph, list[str]]":
    """GRAPH as paths, and what had to be guessed."""
    from headrace.model.mechanistic.nffg import (
        NotAGraph,
        functions,
        named_function,
        routed,
        routes,
    )
    from headrace.model.mechanistic.predict import Graph
    from headrace.model.mechanistic.predict import Path as PathOf

    shape = re.fullmatch(r"(p2p|pvp|pvvp(\d+)|pvpv(\d+))", text)
    if shape:
        name = function or "pass"
        if text == "p2p":
            return Graph(subject, (PathOf(()),)), []
        if shape[3]:
            count = int(shape[3])
            paths = tuple(PathOf((name,), 1 / count) for _ in range(count))
            return Graph(subject, paths, tuple((f"vnf{n}",) for n in range(count))), []
        count = int(shape[2] or 1)
        if not 1 <= count <= 64:
            raise _Wrong(f"GRAPH {text}: chains of 1 to 64 VNFs")
        return Graph(subject, (PathOf((name,) * count),)), []
    try:
        document = json.loads(Path(text).read_text())
        if not isinstance(document, dict):
            raise NotAGraph("no JSON object")
        found = routes(document)
        of = functions(document, named_function)
    except FileNotFoundError as error:
        raise _Wrong(f"GRAPH {text}: no such file, and none of p2p, pvp, pvvpN, pvpvN") from error
    except (OSError, ValueError, NotAGraph) as error:
        raise _Wrong(f"GRAPH {text}: {error}") from error
    missing = sorted({vnf for route in found for vnf in route.vnfs} - set(of))
    if missing:
        raise _Wrong(f"GRAPH {text}: rules name VNFs that it does not have: {', '.join(missing)}")
    renamed = known or {}
    paths = tuple(
        PathOf(tuple(function or renamed.get(of[vnf], of[vnf]) for vnf in route.vnfs), route.share)
        for route in found
    )
    guessed = (
        ["traffic is taken to divide evenly over the ways"]
        if any(route.guessed for route in found)
        else []
    )
    names = tuple(route.vnfs for route in found)
    return Graph(subject, paths, names, routed=routed(document)), guessed


def template_functions() -> dict[str, str]:
    """By name of a template that comes with the node, its function."""
    from headrace.node.templates import load as load_templates

    return {template.id: template.function for template in load_templates([]).all()}


def _with_cores(graph: "Graph", cores: str | None) -> "Graph":
    """Cores as `switch=1,firewall=0,dpi=0`."""
    from dataclasses import replace

    if not cores:
        return graph
    given: dict[str, object] = {}
    for part in cores.split(","):
        role, _, core = part.partition("=")
        names = {"switch", *(name for path in graph.names() for name in path)}
        if not core or role.strip() not in names:
            raise _Wrong(f"--cores {part!r}: write role=core, roles are {', '.join(sorted(names))}")
        given[role.strip()] = core.strip()
    return replace(graph, cores=given)


def _distance() -> float:
    """Nanoseconds of a cache line between the cores that `bench terms` has for VNFs and switch."""
    import os

    from headrace.bench.peers.bed import CONTROL_CORE, WORKER_CORE
    from headrace.machine.core_distance import Transfer

    before = os.sched_getaffinity(0)
    if not {CONTROL_CORE, WORKER_CORE} <= before:
        raise _Wrong(f"--measure-distance needs cores {CONTROL_CORE} and {WORKER_CORE}")
    with Transfer(WORKER_CORE) as transfer:
        os.sched_setaffinity(0, {CONTROL_CORE})
        try:
            found = transfer.round_trip_ns()
        finally:
            os.sched_setaffinity(0, before)
    if found is None:
        raise _Wrong("--measure-distance: the cores were not free for it, try again")
    return found


def _rate(pps: float) -> str:
    return f"{pps / 1e6:.3g} Mpps" if pps >= 1e6 else f"{pps / 1e3:.3g} kpps"


def _document(told: "Prediction", notes: list[str]) -> dict[str, Any]:
    body = {**asdict(told), "partial": told.partial, "met": told.met, "notes": notes}
    found: dict[str, Any] = finite(body)
    return found


def _print(told: "Prediction", notes: list[str], console: Console) -> None:
    top = told.saturation_pps
    limit = " and ".join(told.limiter)
    lines = [
        f"{told.subject}, {told.size:g} B: saturated at {_rate(top.value)} "
        f"[{_rate(top.low)} .. {_rate(top.high)}], by {limit}"
    ]
    if told.demand_pps is not None and told.capacity_used is not None and told.loss is not None:
        used = told.capacity_used
        lines.append(
            f"at {_rate(told.demand_pps)}: {used.value:.1%} of capacity used "
            f"[{used.low:.1%} .. {used.high:.1%}], loss {told.loss.value:.1%}"
        )
        met = {True: "can be met", False: "can NOT be met", None: "may be met or not"}[told.met]
        lines.append(f"the demand {met}")
        for role, share in told.busy.items():
            lines.append(f"  polling shows {role} as {share:.0%} busy")
        if told.latency_us is None:
            lines.append(f"latency: not predicted: {told.latency_note}")
        else:
            mean, worst = told.latency_us
            known = told.latency_mean_us
            between = f" [{known.low:.1f} .. {known.high:.1f}]" if known is not None else ""
            lines.append(
                f"latency: {mean:.1f} us{between}, at most {worst:.1f} us ({told.latency_note})"
            )
    if told.upper_bound:
        lines.append(f"the saturation is an upper bound: {told.upper_bound}")
    if told.transfer_ns is not None:
        lines.append(f"holds while the cores are {told.transfer_ns:.0f} ns apart, as when measured")
    lines += [f"PARTIAL: {name}: {why}" for name, why in told.lacking.items()]
    lines += [f"outside of what was measured: {what}" for what in told.outside]
    lines += [f"note: {note}" for note in notes]
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    table = Table("role", "core", "cycles of a packet", "by term", "used")
    for part in told.roles:
        terms = ", ".join(f"{name} {cycles:.0f}" for name, cycles in part.parts.items() if cycles)
        cycles = part.cycles
        cost = f"{cycles.value:.0f} [{cycles.low:.0f} .. {cycles.high:.0f}]"
        used_text = "" if part.used is None else f"{part.used:.1%}"
        table.add_row(part.role, str(part.core), cost, terms, used_text)
    console.print(table)


def _by_kind(fitted: "Fitted", told: "Capacity") -> "list[Capacity]":
    """The same VNFs with other kinds of ports on the same switch, those that were measured."""
    from headrace.model.mechanistic.capacity import capacity
    from headrace.model.mechanistic.predict import NoGrounds

    found = []
    for other in fitted.subjects():
        if other == told.subject or other.partition("/")[0] != told.subject.partition("/")[0]:
            continue
        try:
            made = capacity(fitted, other, told.function, told.size, told.cores, told.demand_pps)
        except NoGrounds:
            continue
        found.append(made)
    return found


def _errors() -> tuple[type[Exception], ...]:
    from headrace.model.mechanistic.predict import NoGrounds
    from headrace.model.mechanistic.stored import ModelFileError

    return (_Wrong, NoGrounds, ModelFileError, OSError)


def register(app: typer.Typer) -> None:
    """Adds the commands to `headrace model`."""
    group = family(app, "model")

    @group.command("show")
    def show_command(
        model: ModelOption = MODEL,
        other_machine: AnyOption = False,
        of_node: Annotated[
            bool, typer.Option("--node", help="Those of the node that runs, with what it learned.")
        ] = False,
        rundir: Rundir = DEFAULT_RUNDIR,
        as_json: JsonOption = False,
    ) -> None:
        """The fitted terms of every role, with units and errors."""
        from headrace.model.mechanistic.stored import dump, parse

        learned: dict[str, Any] = {}
        differs: list[str] = []
        try:
            if of_node:
                told = NodeClient.of(rundir).get("/node/model")
                if told["terms"] is None:
                    raise _Wrong(f"the node has no terms: {told['reason']}")
                fitted, learned = parse(told["terms"]), told["learned"]
            else:
                fitted, differs = load(model, other_machine)
        except _errors() as error:
            raise fail(error) from error
        if as_json:
            print(json.dumps({**dump(fitted), **({"learned": learned} if of_node else {})}))
            return
        console = Console()
        for role_text, one in learned.items():
            used = "" if one["used"] else "; not used yet: too few"
            counts = ", ".join(f"{count} {what}" for what, count in one["windows"].items())
            console.print(f"{role_text}: windows {counts}{used}", markup=False, soft_wrap=True)
        for line in differs:
            console.print(f"of another machine: {line}", markup=False)
        for key, role in fitted.roles.items():
            spans = ", ".join(f"{n} {lo:g} to {hi:g}" for n, (lo, hi) in role.spans.items())
            lines = [f"{key}: {role.points} loads, scatter {role.residual:.0%}; measured: {spans}"]
            lines += [f"  {line}" for line in role.described()]
            if role.idle_round:
                lines.append(f"  idle round: {role.idle_round:.0f} cycles")
            lines += [f"  without {name}: {why}" for name, why in role.left_out.items()]
            if role.transfer_ns:
                lines.append(f"  cores {role.transfer_ns:.0f} ns apart, a cache line and back")
            if role.disturbed:
                lines.append("  other programs had the cores in some of the trials")
            console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        for key_text, reason in fitted.failures.items():
            console.print(f"not fitted: {key_text}: {reason}", markup=False, soft_wrap=True)

    @group.command("predict")
    def predict_command(
        graph: Annotated[str, typer.Argument(help="An NF-FG file, or p2p, pvp, pvvpN, pvpvN.")],
        pps: PpsOption = None,
        size: SizeOption = 64.0,
        subject: SubjectOption = None,
        function: FunctionOption = None,
        workers: Annotated[int, typer.Option(help="Of the switch.", min=1)] = 1,
        flows: Annotated[float, typer.Option(help="That packets belong to.", min=1)] = 100,
        cores: Annotated[
            str | None, typer.Option(help="role=core by comma; by default each its own.")
        ] = None,
        yields: Annotated[
            bool, typer.Option("--yields", help="VNFs on one core yield it to each other.")
        ] = False,
        measure_distance: Annotated[
            bool,
            typer.Option(
                "--measure-distance",
                help="Measure how far the cores are apart now; refuse if it is another state.",
            ),
        ] = False,
        model: ModelOption = MODEL,
        other_machine: AnyOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Throughput, capacity used, latency and loss of a graph, with 95 % intervals.

        Exit status 3: partial, a role has no grounds; 4: the demand can't be met.
        """
        from dataclasses import replace

        from headrace.model.mechanistic.predict import predict

        try:
            fitted, differs = load(model, other_machine)
            wanted = _subject(fitted, subject)
            asked, notes = read_graph(graph, wanted, function, template_functions())
            asked = replace(asked, workers=workers, flows=flows, yields=yields)
            asked = _with_cores(asked, cores)
            told = predict(fitted, asked, size, pps, _distance() if measure_distance else None)
        except _errors() as error:
            raise fail(error) from error
        notes += [f"of another machine: {line}" for line in differs]
        if as_json:
            print(json.dumps(_document(told, notes), default=str))
        else:
            _print(told, notes, Console())
        if told.partial:
            raise typer.Exit(PARTIAL)
        if told.met is False:
            raise typer.Exit(UNMET)

    @group.command("explain")
    def explain_command(
        graph: Annotated[str, typer.Argument(help="An NF-FG file, or p2p, pvp, pvvpN, pvpvN.")],
        pps: PpsOption = None,
        size: SizeOption = 64.0,
        subject: SubjectOption = None,
        function: FunctionOption = None,
        cores: Annotated[str | None, typer.Option(help="role=core by comma.")] = None,
        plot: Annotated[Path | None, typer.Option(help="Draw the cycles by role, as SVG.")] = None,
        model: ModelOption = MODEL,
        other_machine: AnyOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """Which role and which term dominates a graph, and what would change it."""
        from headrace.model.mechanistic.explain import explain, sentences

        try:
            fitted, differs = load(model, other_machine)
            wanted = _subject(fitted, subject)
            asked, notes = read_graph(graph, wanted, function, template_functions())
            told = explain(fitted, _with_cores(asked, cores), size, pps)
            if plot is not None:
                from headrace.report.role_cycles import draw

                plot.write_text(draw(told.prediction.roles, f"{graph}, {size:g} B"))
        except _errors() as error:
            raise fail(error) from error
        notes += [f"of another machine: {line}" for line in differs]
        if as_json:
            body = {
                "prediction": _document(told.prediction, notes),
                "dominant": [
                    {"role": role, "term": term, "cycles": cycles, "share": share}
                    for role, term, cycles, share in told.dominant
                ],
                "changes": [asdict(change) for change in told.changes],
            }
            print(json.dumps(body, default=str))
        else:
            lines = sentences(told) + [f"note: {note}" for note in notes]
            lines += [f"PARTIAL: {n}: {why}" for n, why in told.prediction.lacking.items()]
            Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        if told.prediction.partial:
            raise typer.Exit(PARTIAL)

    @group.command("compare")
    def compare_command(
        graph: Annotated[str, typer.Argument(help="An NF-FG file, or p2p, pvp, pvvpN, pvpvN.")],
        pps: PpsOption = None,
        size: SizeOption = 64.0,
        function: FunctionOption = None,
        model: ModelOption = MODEL,
        other_machine: AnyOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """One graph on every switch and kind of ports that the model knows."""
        from headrace.model.mechanistic.predict import predict

        try:
            fitted, _ = load(model, other_machine)
            told = {}
            for one in fitted.subjects():
                asked, _ = read_graph(graph, one, function, template_functions())
                told[one] = predict(fitted, asked, size, pps)
        except _errors() as error:
            raise fail(error) from error
        if not told:
            raise fail(_Wrong("the model has no switch"))
        if as_json:
            body = {name: _document(found, []) for name, found in told.items()}
            print(json.dumps(body, default=str))
            return
        table = Table("subject", "saturated at", "95 %", "by", "used at the demand", "")
        best = max(found.saturation_pps.value for found in told.values())
        for name, found in sorted(told.items(), key=lambda item: -item[1].saturation_pps.value):
            top = found.saturation_pps
            used = "" if found.capacity_used is None else f"{found.capacity_used.value:.0%}"
            table.add_row(
                name,
                f"{_rate(top.value)} ({top.value / best:.2f})",
                f"{_rate(top.low)} .. {_rate(top.high)}",
                " and ".join(found.limiter),
                used,
                "partial" if found.partial else "",
            )
        Console().print(table)

    @group.command("capacity")
    def capacity_command(
        cores: Annotated[int, typer.Option(help="For workers and VNFs together.", min=2)],
        function: Annotated[str, typer.Option(help="Of each VNF.")] = "pass",
        pps: PpsOption = None,
        size: SizeOption = 64.0,
        subject: SubjectOption = None,
        model: ModelOption = MODEL,
        other_machine: AnyOption = False,
        as_json: JsonOption = False,
    ) -> None:
        """How many VNFs fit before the rate of each falls, the best split of cores, by ports."""
        from headrace.model.mechanistic.capacity import capacity

        try:
            fitted, _ = load(model, other_machine)
            told = capacity(fitted, _subject(fitted, subject), function, size, cores, pps)
        except _errors() as error:
            raise fail(error) from error
        kinds = [] if subject else _by_kind(fitted, told)
        if as_json:
            print(json.dumps({**asdict(told), "kinds": [asdict(one) for one in kinds]}))
            return
        best = told.best
        console = Console()
        lines = [
            f"{told.subject}, {function}, {size:g} B, {cores} cores; its cycles "
            f"are known to ± {told.relative_error:.0%}",
            f"best split: {best.workers} workers, {best.vnfs} VNFs: {_rate(best.total_pps)} in "
            f"all, {_rate(best.each_pps)} each, limited by {best.limiter}",
        ]
        for one in kinds:
            lines.append(
                f"with {one.subject}: {one.best.workers} workers, {one.best.vnfs} VNFs: "
                f"{_rate(one.best.total_pps)} in all; with one worker {one.fit[1]} VNFs before "
                f"the rate of each falls"
            )
        for workers, fit in told.fit.items():
            lines.append(f"{workers} workers: {fit} VNFs before the rate of each falls")
        console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        table = Table("workers", "VNFs", "all", "each", "limited by")
        for row in told.rows:
            table.add_row(
                str(row.workers),
                str(row.vnfs),
                _rate(row.total_pps),
                _rate(row.each_pps),
                row.limiter,
            )
        console.print(table)
