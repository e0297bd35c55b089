# SPDX-License-Identifier: Apache-2.0
"""What was measured as windows of the model, and as the file that it is fitted to."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from headrace.bench.cost.bed import Window as CostWindow
from headrace.bench.cost.counters import WorkerCounters
from headrace.bench.cost.figures import MAX_LOSS
from headrace.bench.terms.suite import Point, Setup, Taken
from headrace.model.mechanistic.windows import Key, Window, by_queues, switch_queues

OUTER = "in-process"


def subject_of(switch: str, setup: Setup) -> str:
    """The name that results give to such a switch and its ports."""
    return f"{switch}/{OUTER}" + (f"+{setup.ports}" if setup.vnfs else "")


def _common(point: Point, window: CostWindow, hz: float) -> dict[str, Any]:
    return {
        "group": point.group,
        "vnfs": point.setup.vnfs,
        "size": point.mix.mean,
        "load": point.pace.pps,
        "offered": point.pace.pps or window.pps,
        "through": window.pps,
        "transfer_ns": window.transfer_ns,
        "refused": window.refused_share,
        "hz": hz,
        "level": "overload" if point.load is None else f"{point.load:g}",
        "arrivals": point.arrivals,
        "function": point.setup.function if point.setup.vnfs else "",
    }


def _of(
    key: Key, point: Point, window: CostWindow, worker: WorkerCounters, hz: float
) -> Window | None:
    if min(worker.busy_cycles, worker.rounds, worker.busy_rounds, worker.bursts) <= 0:
        return None
    size, vnfs = point.mix.mean, point.setup.vnfs
    own = key.role == "VNF"
    packets = float(worker.packets if own else window.delivered)
    rounds, busy = float(worker.rounds), float(worker.busy_rounds)
    terms = {
        "packets": packets,
        "octets": packets * size,
        "busy_rounds": busy,
        "wakes": busy * (1 - busy / rounds),
        "bursts": float(worker.bursts),
    }
    if not own:
        terms["visits"] = packets * vnfs
        terms["visit_octets"] = packets * vnfs * size
        terms |= by_queues(terms, vnfs, switch_queues(vnfs))
        terms["due"] = packets if point.pace.poisson else packets / point.pace.burst
    # What was taken from the worker is in its cycles by the clock, busy and idle alike.
    had = 1.0 if own else window.on_core
    return Window(
        key=key,
        seconds=worker.cycles / hz,
        busy=had * worker.busy_cycles,
        idle=had * worker.idle_cycles,
        idle_rounds=rounds - busy,
        limiter="generator",
        # A VNF that was kept from its core brings packets back later: the switch works as else.
        disturbed=not (window.undisturbed if own else window.switch_undisturbed),
        terms=terms,
        **_common(point, window, hz),
    )


def _saturated(key: Key, point: Point, window: CostWindow, hz: float) -> Window:
    """What was carried without a pace; its limiter is the role that had no cycle left."""
    limiter = window.verdict("switch").limiter
    pps = window.full_pps if limiter == "switch" and window.full_pps else window.pps
    return Window(
        key=key,
        seconds=1.0,
        busy=hz,
        idle=0.0,
        idle_rounds=0.0,
        limiter=limiter,
        disturbed=not (window.switch_undisturbed if key.role == "switch" else window.undisturbed),
        terms={"packets": pps},
        **{**_common(point, window, hz), "offered": pps, "through": pps},
    )


def windows_of(taken: Taken, hz: float) -> list[Window]:
    """Every window that can be a point of the model, of switch and VNFs.

    VNFs that share a core are no points of the VNF's terms: a time slice that ends within a round
    counts as busy. Without VNFs kinds of ports do not matter, so each kind has those windows.
    """
    kinds = {subject_of(taken.switch, p.setup) for p, _ in taken.windows if p.setup.vnfs}
    found: list[Window] = []
    for point, window in taken.windows:
        subject = subject_of(taken.switch, point.setup)
        vnf = window.vnf
        of_vnf = Key(subject, "VNF", point.setup.function)
        if window.delivered <= 0:
            continue
        made: list[Window | None]
        if point.load is None:
            made = [_saturated(Key(subject, "switch"), point, window, hz)]
            if vnf is not None:
                made.append(_saturated(of_vnf, point, window, hz))
        elif window.loss > MAX_LOSS:
            continue
        else:
            made = [_of(Key(subject, "switch"), point, window, window.switch, hz)]
            if vnf is not None:
                made.append(_of(of_vnf, point, window, vnf, hz))
        for one in made:
            if one is None:
                continue
            keys = kinds if not point.setup.vnfs and kinds else {subject}
            found += [replace(one, key=replace(one.key, subject=key)) for key in sorted(keys)]
    return found


def write(path: Path, windows: Sequence[Window], manifest: dict[str, Any]) -> None:
    """Writes the windows and the manifest of their machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"manifest": manifest, "windows": [asdict(one) for one in windows]}
    path.write_text(json.dumps(body) + "\n")
