# SPDX-License-Identifier: Apache-2.0
"""Writes the report: one self-contained HTML file for a stored campaign."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from headrace.model.cost import READING
from headrace.report import cost_figures, figures
from headrace.report.findings import findings
from headrace.report.papers import comparisons
from headrace.report.view import View, read
from headrace.results import UNITS, published
from headrace.results.bounds import bounded
from headrace.results.emulation import NOTE, is_emulated
from headrace.results.store import Store
from headrace.results.summary import Row
from headrace.results.units import nanoseconds, quantity, rate, seconds

INDEX = "index.html"


@dataclass(frozen=True)
class Section:
    """A figure with its heading and an explanation."""

    anchor: str
    title: str
    lead: str
    figure: str


@dataclass(frozen=True)
class _Part:
    anchor: str
    title: str
    lead: str
    draw: Callable[[View], str | None]


PARTS = (
    _Part(
        "throughput",
        "Throughput port to port",
        "One dot for each frame size, switch and kind of rate; whiskers are 95 % intervals, or the "
        "range where there are fewer than six samples; ≥ and an arrow mark what the generator "
        "limited or may have; a dashed line is what it reaches over such ports with a peer that is "
        "never slower. Overload is what came back when the "
        "generator sent as fast as it could; PDR and NDR were searched for.",
        figures.throughput_by_size,
    ),
    _Part(
        "loss",
        "Loss over offered load",
        "Every trial of the searches, not only their answer: a switch with a sharp knee loses "
        "nothing until it loses much, a machine that takes its core away now and then loses a "
        "little at any load.",
        figures.loss_by_load,
    ),
    _Part(
        "latency",
        "Latency percentiles",
        "One-way, from the moment at which a frame was meant to leave. Each switch is loaded with "
        "its own PDR's share, so the panels compare switches that are equally busy, not equally "
        "loaded. Thin bars are the range over the rounds.",
        figures.latency_percentiles,
    ),
    _Part(
        "multi-vnf",
        "VNFs side by side",
        "The source in the switch spreads an IMIX over the VNFs; each packet visits one. On two "
        "cores all VNFs share one, so this says how well they share, not how they would scale.",
        figures.multi_vnf,
    ),
    _Part(
        "flows",
        "Number of flows",
        "One table of /24 prefixes at the entry; flows differ in their destination. Purple: Table "
        "5 of D5.6, whose pipeline does more for each packet (see the table below).",
        figures.flow_sweep,
    ),
    _Part(
        "length",
        "What a chain costs",
        "Busy cycles of the switch's worker at fixed loads as a share of one core. Filled dots and "
        "solid lines: gather (a chain on this server). Hollow and dashed: distribute (n VNFs side "
        "by side, each of another chain). Lines are the fitted cost functions.",
        cost_figures.cost_by_length,
    ),
    _Part(
        "cycles",
        "Cycles per packet",
        "The same trials, for each frame that came back. Lines fall where bursts grow with the "
        "load and share the cost of a poll.",
        cost_figures.cycles_by_load,
    ),
    _Part(
        "roles",
        "Switching and VNFs",
        "What one packet costs n chains of n VNFs on n servers: the switches of all servers, and "
        "the VNFs, which do the same work in both placements. “Full bursts” is the cost at the "
        "margin; at a load, polling is in it.",
        cost_figures.cycles_by_role,
    ),
    _Part(
        "all-roles",
        "Cycles by role",
        "What one packet costs every role under overload: the switch, the VNFs, the generator "
        "(which sends, stamps, receives and checks) and, for the kernel's bridge, softirq time. "
        "With source and sink in the switch there is no generator, and their cycles are the "
        "switch's.",
        cost_figures.cycles_of_all_roles,
    ),
    _Part(
        "saturation",
        "Predicted and measured",
        "The rate at which a switch has no time left, foretold by its marginal cost from loads "
        "below it, over the rate measured under overload. Hollow: no load with frames of this "
        "size is in the fit. Only where the switch was the limit.",
        cost_figures.predicted_and_measured,
    ),
    _Part(
        "placement",
        "Gather or distribute",
        "The cost of n chains of n VNFs on n servers by the cost functions, ours and Luizelli's, "
        "at 100 kpps a chain. Where dashed is below solid, distribute costs the switches less. "
        "Beyond three VNFs ours is extrapolated.",
        cost_figures.placement_cost,
    ),
)


def sections(view: View) -> list[Section]:
    """The figures for which the campaign has data."""
    made = []
    for part in PARTS:
        drawn = part.draw(view)
        if drawn is not None:
            made.append(Section(part.anchor, part.title, part.lead, drawn))
    return made


def _disturbed(view: View) -> str:
    """A note if other programs often ran on the worker's core; else ""."""
    counted = [t for trials in view.trials.values() for t in trials if t.tsc_hz]
    if not counted:
        return ""
    uneven = [found for trial in counted if (found := trial.unequal_sessions)]
    said = ""
    if uneven:
        said = (
            f"In {len(uneven)} of {len(counted)} trials {uneven[0]}: a poller that yields then "
            "hardly ever gives the core to the others. "
        )
    share = sum(t.disturbed and not t.unequal_sessions for t in counted) / len(counted)
    if share < 0.05:
        return said.rstrip()
    return said + (
        f"In {100 * share:.0f} % of the trials whose cycles were read, other programs took more "
        "than a tenth of what they measure: of the time for a rate, of the busy time for a cost, "
        "which is some percent of it at low load. Rates are too low then and costs too high. "
        f"{_left_out(view)} are left out as clearly worse than the calmest; repeat the campaign on "
        "a machine that does nothing else."
    )


def _left_out(view: View) -> str:
    """How many samples are in no row, because others had more of the core than usual."""
    kept = sum(row.summary.count for row in view.rows)
    return f"{view.samples - kept} of {view.samples} samples"


def _ruler(manifest: dict[str, Any]) -> str:
    """The generator's own limits and precision, measured in loopback."""
    generator = manifest.get("generator")
    if not generator:
        return ""
    ceilings = ", ".join(
        f"{rate(entry['ceiling_pps'])} of {entry['size']} B" for entry in generator["ceilings"]
    )
    for over in generator.get("ports", []):
        said = ", ".join(
            f"{'' if point['exact'] else 'at least '}{rate(point['pps'])} of {point['size']} B"
            for point in over["points"]
        )
        bare = " without stamps" if over["bare"] else ""
        ceilings += f"; over {over['kind']} ports{bare} {said}"
    floor, timing = generator["latency_floor_ns"], generator["timing_error_ns"]
    if floor.get("p50") is None or timing.get("p99") is None:
        return f"Looped to itself ({generator['via']}) the generator sends and counts {ceilings}."
    return (
        f"Looped to itself ({generator['via']}) the generator sends and counts {ceilings}. At "
        f"{rate(generator['at_pps'])} its median latency is {nanoseconds(floor['p50'])}, and 99 % "
        f"of its frames leave within {nanoseconds(timing['p99'])} of their time: read latencies "
        "against that."
    )


def _interval(row: Row) -> str:
    summary = row.summary
    if summary.low is not None and summary.high is not None:
        return f"{quantity(summary.low, row.unit)} – {quantity(summary.high, row.unit)}"
    if summary.count > 1:
        low, high = quantity(summary.minimum, row.unit), quantity(summary.maximum, row.unit)
        return f"({low} – {high})"
    return ""


def _table(view: View) -> list[dict[str, str]]:
    return [
        {
            "scenario": row.case.scenario,
            "case": row.case.name,
            "metric": row.metric + (f" at {row.point}" if row.point else ""),
            "median": bounded(quantity(row.summary.median, row.unit), row.bound),
            "interval": _interval(row),
            "count": str(row.summary.count),
            "limited": view.limiters(row),
        }
        for row in view.rows
    ]


def _oversubscribed(manifest: dict[str, Any]) -> str:
    plan = manifest.get("core_plan")
    if not plan:
        return ""
    usable, generator = plan["usable"], plan["generator"]
    if len(usable) >= 4:
        return ""
    return (
        f"This machine has {len(usable)} usable cores. The switch's worker has core "
        f"{plan['switch'][0]} for itself; generator, control and all VNFs share core "
        f"{generator[0]}. Every figure with a VNF and a generator is oversubscribed: it says how "
        "well they share as much as how fast the switch is. With source and sink in the switch "
        "(in-process) VNFs have that core to themselves."
    )


def render(view: View) -> str:
    """The report as text."""
    manifest = view.campaign.manifest
    environment = Environment(
        loader=PackageLoader("headrace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    took = (view.campaign.ended or view.campaign.started) - view.campaign.started
    return environment.get_template("report.html.j2").render(
        campaign=view.campaign,
        when=datetime.fromtimestamp(view.campaign.started, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        took=seconds(took),
        machine=manifest.get("machine", {}),
        versions=manifest.get("versions", {}),
        emulated=NOTE if is_emulated(manifest) else "",
        simulated=bool(manifest.get("simulated")),
        oversubscribed=_oversubscribed(manifest),
        disturbed=_disturbed(view),
        ruler=_ruler(manifest),
        findings=findings(view),
        bounded=bounded,
        quantity=quantity,
        units=UNITS,
        sections=sections(view),
        reading=READING,
        fits=view.model.fits,
        cycle_fits=view.model.cycle_fits,
        failures=view.model.failures,
        left_out=sum(view.model.left_out.values()),
        table_one=[] if is_emulated(manifest) else published.cost_functions(),
        ratios=[entry for entry in view.ratios if not entry.metric.startswith("latency_m")],
        comparisons=[] if is_emulated(manifest) else comparisons(view),
        skips=view.skips,
        rows=_table(view),
        definitions=manifest.get("definitions", {}),
        manifest=json.dumps(manifest, indent=1),
        sources=published.SOURCES,
        trials=sum(len(trials) for trials in view.trials.values()),
    )


def write_figures(store: Store, folder: Path, campaign: int | None = None) -> list[Path]:
    """Writes each figure of a campaign's report as an SVG file of its own; returns their paths.

    Raises:
        StoreError: there is no such campaign.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for section in sections(read(store, campaign)):
        path = folder / f"{section.anchor}.svg"
        path.write_text(section.figure)
        written.append(path)
    return written


def write(store: Store, folder: Path, campaign: int | None = None) -> Path:
    """Writes `folder`/index.html for a campaign (the newest if none is named); returns its path.

    Raises:
        StoreError: there is no such campaign.
    """
    text = render(read(store, campaign))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / INDEX
    path.write_text(text)
    return path
