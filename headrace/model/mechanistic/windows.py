# SPDX-License-Identifier: Apache-2.0
"""What one role counted in one trial, beside the terms that its graph gives.

Terms of the switch, for each packet that came through a graph whose packets visit n VNFs:

    packets 1, octets its bytes             from the network and to it
    visits n, visit_octets n x bytes        to a VNF and back, by kind of port
    lookups                                 1 if rules are prefixes
    doublings                               log2(flows / 100), for more than 100 flows
    bursts, busy_rounds, wakes              as counted (headrace/model/marginal.py)
    polls                                   busy rounds x queues that each of them polls
    visit_takes                             busy rounds x queues that each took packets from, bursts
                                            or n + 1 at most, x n / (n + 1): the VNFs' of these;
                                            lines of their rings come from another core, once a
                                            round, however many bursts follow
    cold_visits, cold_visit_octets          visits and their bytes x share of the worker's cycles in
                                            idle rounds: what they cost more while it polls empty
                                            rings in between; 0 at saturation
    uncached                                bytes of visits that are not in the cache of its core
                                            since the VNF's queue is full: at saturation, of large
                                            frames (amounts.py)
    due                                     arrivals of the bench's own source, which has to look
                                            when each is due; no part of any prediction

A VNF and the generator have packets, octets, the counted ones and

    singles                                 packets outside of whole batches of four, `SINGLES` of a
                                            burst or all: DPDK's packed rings take and give four
                                            descriptors (a cache line) at a time where these begin
                                            at a line, and the others one by one: 1.5 on average at
                                            each end of a burst

A change of the poller on a core that several share (`switches`) is measured by itself
(machine/context_switch.py), not fitted.

The kernel, whose softirq time has neither rounds nor bursts, has the terms of the graph only.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.results import Case, Trial
from headrace.results.store import Store

MAX_LOSS = 0.05
"""Fixed loads with more are no points: what is lost before a hop costs nothing there."""

UNITS = {
    "busy_rounds": "cycles per busy round",
    "wakes": "cycles per busy round after an idle one",
    "polls": "cycles per queue that a busy round polls",
    "visit_takes": "cycles per round that takes packets from a VNF's queue",
    "cold_visits": "cycles per visit to a VNF x idle share",
    "cold_visit_octets": "cycles per byte and visit x idle share",
    "uncached": "cycles per byte and visit that a full queue keeps from the cache",
    "singles": "cycles per packet outside of whole batches of four",
    "switches": "cycles per change of the poller on a shared core",
    "due": "cycles per arrival that the bench's own source schedules",
    "bursts": "cycles per burst",
    "packets": "cycles per packet",
    "octets": "cycles per byte",
    "visits": "cycles per visit to a VNF",
    "visit_octets": "cycles per byte and visit",
    "lookups": "cycles per packet that is routed by a table of prefixes",
    "doublings": "cycles per packet and doubling of the flows",
}
POLLED = ("busy_rounds", "wakes", "bursts")
BY_QUEUES = ("polls", "visit_takes")
"""A switch's terms by its queues, of which it has some for the network and some for VNFs."""
COLD = ("cold_visits", "cold_visit_octets")
"""A switch's terms by the share of its time in which it polls and finds nothing."""
TERMS = {
    "switch": (
        *("packets", "octets", "visits", "visit_octets", "lookups", "doublings"),
        *(*POLLED, *BY_QUEUES, *COLD, "uncached", "due"),
    ),
    "VNF": ("packets", "octets", *POLLED, "singles"),
    "kernel": ("packets", "octets", "visits", "visit_octets"),
    "generator": ("packets", "octets", *POLLED),
}
SINGLES = 3.0
"""Packets of a burst that are outside of whole batches of four, on average."""
FEW_FLOWS = 100
"""Flows up to which caches hold them: packets of more cost `doublings` besides."""


@dataclass(frozen=True)
class Key:
    """Whose cost it is: a role of a subject; `function` and `kind` of a VNF's."""

    subject: str
    role: str
    function: str = ""

    def __str__(self) -> str:
        """For people."""
        return f"{self.subject} {self.role}" + (f" {self.function}" if self.function else "")


@dataclass(frozen=True)
class Window:
    """One trial of one role.

    Attributes:
        group: trials of one group are repeats.
        offered, through: packets per second.
        seconds: length of the trial.
        polls: queues that the role polls.
        limiter: who limited the rate.
        terms: amounts by term.
        sharing: VNFs that have the core together.
        level: of the load among those of its graph and size; empty: its rate.
        arrivals: in words; empty: not told.
        refused: packets that VNFs' queues did not take, for each that came through.
        transfer_ns: how far the switch's and the VNF's core were apart; None: not known.
        function: of the VNFs; empty: there are none, or it is not told.
    """

    key: Key
    group: str
    vnfs: int
    size: float
    load: float | None
    offered: float
    through: float
    seconds: float
    hz: float
    busy: float
    idle: float
    idle_rounds: float
    limiter: str
    disturbed: bool
    terms: dict[str, float]
    sharing: int = 1
    level: str = ""
    arrivals: str = ""
    refused: float = 0.0
    transfer_ns: float | None = None
    function: str = ""

    def __post_init__(self) -> None:
        """Adds the amounts that follow from others, also to windows of an older file."""
        object.__setattr__(self, "terms", {**self._derived(), **self.terms})

    def _derived(self) -> dict[str, float]:
        of = self.terms
        if self.key.role == "VNF" and "bursts" in of:
            return {"singles": singles(of["packets"], of["bursts"])}
        spent = self.busy + self.idle
        if self.key.role != "switch" or "visits" not in of or spent <= 0:
            return {}
        return {f"cold_{name}": self.idle / spent * of[name] for name in ("visits", "visit_octets")}

    @property
    def share(self) -> float:
        """Busy share of the role's time."""
        return self.busy / (self.hz * self.seconds)


def singles(packets: float, bursts: float) -> float:
    """Packets outside of whole batches of four, of so many bursts."""
    return min(packets, SINGLES * bursts)


def switch_queues(vnfs: int) -> int:
    """The queues that a switch polls for a graph between two ports: each VNF has two."""
    return 2 + 2 * vnfs


def by_queues(polled: dict[str, float], visits: float, queues: float) -> dict[str, float]:
    """Amounts of a switch's terms by its queues.

    Args:
        polled: busy rounds and bursts of the window.
        visits: to VNFs, of a packet.
        queues: that a round polls.
    """
    taken = min(polled["bursts"], polled["busy_rounds"] * (visits + 1))
    return {
        "polls": polled["busy_rounds"] * queues,
        "visit_takes": taken * visits / (visits + 1),
    }


def _wakes(rounds: float, busy: float) -> float:
    return busy * (1 - busy / rounds) if rounds > 0 else 0.0


def _polled(of: dict[str, Any]) -> dict[str, float] | None:
    needed = ("busy_cycles", "rounds", "busy_rounds", "bursts")
    if any(not of.get(name) for name in needed):
        return None
    rounds, busy = float(of["rounds"]), float(of["busy_rounds"])
    return {"busy_rounds": busy, "wakes": _wakes(rounds, busy), "bursts": float(of["bursts"])}


def windows_of(case: Case, trial: Trial) -> Iterable[Window]:
    """What each role of a trial counted; roles without counters are left out."""
    if not case.size.isdigit() or trial.received <= 0 or trial.duration_s <= 0:
        return
    size, through, hz = float(case.size), float(trial.received), trial.tsc_hz or 0.0
    if hz <= 0:
        return
    visits = case.vnfs if case.shape == "chain" else min(1, case.vnfs)
    load = trial.intended_pps
    common: dict[str, Any] = {
        "group": f"{case.scenario} {case.size} B {case.graph} {case.function} {load or 'overload'}",
        "vnfs": visits,
        "size": size,
        "load": load,
        "offered": trial.tx_pps if load is None else load,
        "through": trial.rx_pps or through / trial.duration_s,
        "seconds": trial.duration_s,
        "hz": hz,
        "limiter": trial.limiter,
        "disturbed": trial.disturbed,
        "function": case.function if case.vnfs else "",
    }
    graph = {
        "packets": through,
        "octets": through * size,
        "visits": through * visits,
        "visit_octets": through * visits * size,
        "lookups": through if case.prefixes else 0.0,
        "doublings": through * doublings(case.flows),
    }
    if trial.approximate:
        if trial.busy_cycles:
            key = Key(case.subject, "kernel")
            yield Window(
                key, busy=trial.busy_cycles, idle=0.0, idle_rounds=0.0, terms=graph, **common
            )
        return
    counters = trial.detail.get("counters") or {}
    vnfs = [of for name, of in counters.items() if name.startswith("vnf")]
    spent = sum(float(of.get("busy_cycles") or 0) for of in vnfs)
    # VNFs that together had no more than one core's time were on one core.
    sharing = len(vnfs) if spent <= 1.1 * hz * trial.duration_s else 1
    for name, of in counters.items():
        polled = _polled(of)
        if polled is None:
            continue
        idle = float(of.get("idle_cycles") or 0)
        rest: dict[str, Any] = {
            "busy": float(of["busy_cycles"]),
            "idle": idle,
            "idle_rounds": float(of["rounds"]) - float(of["busy_rounds"]),
        }
        if name == "switch":
            terms = {
                **graph,
                **polled,
                **by_queues(polled, visits, switch_queues(case.vnfs)),
            }
            yield Window(Key(case.subject, "switch"), terms=terms, **rest, **common)
        elif name == "generator":
            own = {"packets": through, "octets": through * size, **polled}
            yield Window(Key(case.subject, "generator"), terms=own, **rest, **common)
        elif name.startswith("vnf") and of.get("packets"):
            seen = float(of["packets"])
            own = {"packets": seen, "octets": seen * size, **polled}
            key = Key(case.subject, "VNF", case.function)
            yield Window(key, terms=own, sharing=max(1, sharing), **rest, **common)


def read_windows(paths: Iterable[Path]) -> tuple[list[Window], dict[str, Any]]:
    """The windows of files of `headrace bench terms`, and the manifest of their machine.

    Raises:
        ValueError: one is no such file, or they are of different machines; says what is wrong.
    """
    windows: list[Window] = []
    manifest: dict[str, Any] = {}
    for path in paths:
        try:
            content = json.loads(path.read_text())
            made = [Window(**{**one, "key": Key(**one["key"])}) for one in content["windows"]]
            source = dict(content.get("manifest") or {})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: no file of `headrace bench terms`: {error}") from error
        before, now = (one.get("machine") or {} for one in (manifest, source))
        for name in ("processor", "cores"):
            if manifest and before.get(name) != now.get(name):
                raise ValueError(
                    f"{path}: of another machine than the file before ({name}: "
                    f"{now.get(name)}, {before.get(name)}); fit each machine by itself"
                )
        windows += made
        manifest = manifest or source
    if not windows:
        raise ValueError("no windows: `headrace bench terms` measures them")
    return windows, manifest


def doublings(flows: float) -> float:
    """How often the number of flows is doubled beyond the few that caches hold."""
    return max(0.0, math.log2(flows / FEW_FLOWS)) if flows > 0 else 0.0


def stored_windows(store: Store, campaign: int) -> list[Window]:
    """All windows of a campaign: fixed loads with little loss, and overload."""
    found: list[Window] = []
    for case_id, case in store.cases(campaign).items():
        for trial in store.trials(case_id):
            if trial.purpose not in ("cost", "overload"):
                continue
            if trial.purpose == "cost" and trial.loss_ratio > MAX_LOSS:
                continue
            found += windows_of(case, trial)
    return [*found, *_without_vnfs(found)]


def _without_vnfs(windows: list[Window]) -> list[Window]:
    """Trials without VNFs, for each subject with these ports outside and others to VNFs, too."""
    subjects = {one.key.subject for one in windows}
    return [
        replace(one, key=replace(one.key, subject=subject))
        for one in windows
        if one.vnfs == 0
        for subject in sorted(subjects)
        if subject.startswith(f"{one.key.subject}+")
    ]
