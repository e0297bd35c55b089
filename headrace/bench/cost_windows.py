# SPDX-License-Identifier: Apache-2.0
"""The windows of `headrace bench cost` as a file that the model is fitted to.

They have bursts of several sizes and loads up to 60 % of saturation, which a campaign's fixed loads
do not have: what tells a packet's cost from a round's. Windows of mixed sizes are left out, since a
mix costs more than its mean size does (headrace/model/marginal.py); rates under overload are kept,
to compare predictions with.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.bench.cost.bed import Window as CostWindow
from headrace.bench.cost.counters import WorkerCounters
from headrace.bench.cost.figures import MAX_LOSS, Saturation, Taken
from headrace.model.mechanistic.windows import Key, Window

VNFS = {"p2p": 0, "pvp": 1}
FUNCTION = "pass"


def subject_of(switch: str) -> str:
    """The name that results give to such a switch and its ports."""
    return f"{switch}/in-process+vhost-user"


def _of(
    key: Key, group: str, window: CostWindow, worker: WorkerCounters, vnfs: int, hz: float
) -> Window | None:
    if min(worker.busy_cycles, worker.rounds, worker.busy_rounds, worker.bursts) <= 0:
        return None
    size, own = window.mix.mean, key.role == "VNF"
    packets = float(worker.packets if own else window.delivered)
    rounds, busy = float(worker.rounds), float(worker.busy_rounds)
    terms = {
        "packets": packets,
        "octets": packets * size,
        "visits": 0.0 if own else packets * vnfs,
        "visit_octets": 0.0 if own else packets * vnfs * size,
        "busy_rounds": busy,
        "wakes": busy * (1 - busy / rounds),
        "bursts": float(worker.bursts),
    }
    return Window(
        key=key,
        group=f"{window.mix.name} {vnfs} VNFs {group}",
        vnfs=vnfs,
        size=size,
        load=window.pace.pps,
        offered=window.pace.pps or window.pps,
        through=window.pps,
        seconds=worker.cycles / hz,
        hz=hz,
        busy=float(worker.busy_cycles),
        idle=float(worker.idle_cycles),
        idle_rounds=rounds - busy,
        limiter="generator",
        disturbed=not window.undisturbed,
        terms=terms,
    )


def _saturated(one: Saturation, subject: str, vnfs: int, hz: float) -> Window:
    role = "VNF" if one.limiter == "VNF" else "switch"
    return Window(
        key=Key(subject, role, FUNCTION if role == "VNF" else ""),
        group=f"{one.mix} {vnfs} VNFs overload",
        vnfs=vnfs,
        size=one.size,
        load=None,
        offered=one.pps,
        through=one.pps,
        seconds=1.0,
        hz=hz,
        busy=hz,
        idle=0.0,
        idle_rounds=0.0,
        limiter=one.limiter,
        disturbed=False,
        terms={"packets": one.pps},
    )


def windows_of(all_taken: Sequence[Taken], hz: float) -> list[Window]:
    """Every window that can be a point of the model, of switches and VNFs."""
    found: list[Window] = []
    for taken in all_taken:
        vnfs, subject = VNFS[taken.way], subject_of(taken.switch)
        for group, window in taken.windows:
            if window.mix.changes or window.loss > MAX_LOSS or window.delivered <= 0:
                continue
            roles = [(Key(subject, "switch"), window.switch)]
            if window.vnf is not None:
                roles.append((Key(subject, "VNF", FUNCTION), window.vnf))
            made = [_of(key, group, window, worker, vnfs, hz) for key, worker in roles]
            found += [one for one in made if one is not None]
        found += [
            _saturated(one, subject, vnfs, hz) for one in taken.saturations if not one.changes
        ]
    return found


def write(path: Path, windows: Sequence[Window], manifest: dict[str, Any]) -> None:
    """Writes the windows and the manifest of their machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"manifest": manifest, "windows": [asdict(one) for one in windows]}
    path.write_text(json.dumps(body) + "\n")
