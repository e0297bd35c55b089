# SPDX-License-Identifier: Apache-2.0
"""Which role and term dominates a prediction, and what would change it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.model.mechanistic.fitting import Fitted
from headrace.model.mechanistic.predict import Graph, NoGrounds, Prediction, predict
from headrace.model.mechanistic.windows import UNITS


@dataclass(frozen=True)
class Change:
    """A change and the saturation with it; `factor` over that of the graph as it is."""

    what: str
    saturation_pps: float
    factor: float
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """The prediction; its largest terms: role, term, cycles, part of the limit; and changes."""

    prediction: Prediction
    dominant: list[tuple[str, str, float, float]]
    changes: list[Change]


def explain(
    fitted: Fitted, graph: Graph, size: float, demand_pps: float | None = None
) -> Explanation:
    """Explains a graph's prediction.

    Raises:
        NoGrounds: see `predict`.
    """
    now = predict(fitted, graph, size, demand_pps)
    limiting = [part for part in now.roles if part.role in now.limiter]
    total = sum(part.cycles.value for part in limiting)
    dominant = sorted(
        (
            (part.role, term, cycles, cycles / total)
            for part in limiting
            for term, cycles in part.parts.items()
            if cycles > 0
        ),
        key=lambda one: -one[2],
    )
    changes = [
        Change(
            what,
            then.saturation_pps.value,
            then.saturation_pps.value / now.saturation_pps.value,
            note,
        )
        for what, then, note in _alternatives(fitted, graph, size)
    ]
    changes.sort(key=lambda change: -change.factor)
    return Explanation(now, dominant, changes)


def _alternatives(
    fitted: Fitted, graph: Graph, size: float
) -> Iterator[tuple[str, Prediction, str]]:
    longest = max(len(path.functions) for path in graph.paths)
    if longest > 1:
        direct = tuple(
            replace(path, direct=frozenset(range(len(path.functions) - 1))) for path in graph.paths
        )
        note = "what VNFs spend on such a port is taken to be what they spend now"
        yield (
            "direct links between the VNFs",
            predict(fitted, replace(graph, paths=direct), size),
            note,
        )
    more = replace(graph, workers=graph.workers + 1)
    note = "if the queues divide evenly"
    yield f"{more.workers} workers of the switch", predict(fitted, more, size), note
    if graph.cores and len(set(graph.cores.values())) < len(graph.cores):
        yield "a core for each role", predict(fitted, replace(graph, cores={}), size), ""
    for subject in fitted.subjects():
        if subject == graph.subject:
            continue
        try:
            other = predict(fitted, replace(graph, subject=subject), size)
        except NoGrounds:
            continue
        if not other.lacking:
            yield f"switch and ports {subject}", other, ""
    if size > 64:
        yield "frames of 64 bytes at the same number of packets", predict(fitted, graph, 64.0), ""


def sentences(told: Explanation) -> list[str]:
    """The explanation as text."""
    now = told.prediction
    top = now.saturation_pps
    lines = [
        f"saturated at {_rate(top.value)} [{_rate(top.low)} .. {_rate(top.high)}] by "
        f"{' and '.join(now.limiter)}"
    ]
    for role, term, cycles, share in told.dominant[:5]:
        lines.append(
            f"  {share:5.0%}  {role}: {term}, {cycles:.0f} cycles of a packet ({UNITS[term]})"
        )
    for change in told.changes:
        note = f" ({change.note})" if change.note else ""
        lines.append(
            f"with {change.what}: {_rate(change.saturation_pps)}, x {change.factor:.2f}{note}"
        )
    return lines


def _rate(pps: float) -> str:
    return f"{pps / 1e6:.3g} Mpps" if pps >= 1e6 else f"{pps / 1e3:.3g} kpps"
