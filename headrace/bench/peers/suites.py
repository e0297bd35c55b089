# SPDX-License-Identifier: Apache-2.0
"""The comparisons with other programs as commands run them: peers, adversary."""

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.bench.peers import adversary, cases, figures, frames, rte_acl
from headrace.bench.peers.bed import manifest, place, running
from headrace.bench.peers.cases import gateways
from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.compare import Plan, best_setting, compare, measure
from headrace.bench.peers.systems import PeerError, Place, System
from headrace.bench.rows import Row, row, skipped
from headrace.machine.tsc import tsc_hz
from headrace.results.statistics import median_interval

ACL_SAMPLES = 3

Say = Callable[[str], None]


def chosen_cases(only: str) -> list[Case]:
    """The cases whose name contains a word of `only` (comma-separated); all if it is empty.

    PeerError if that leaves none.
    """
    words = [word.strip() for word in only.split(",") if word.strip()]
    every = cases.all_cases()
    found = [case for case in every if not words or any(word in case.name for word in words)]
    if not found:
        raise PeerError(f"no case contains {only!r}: {', '.join(case.name for case in every)}")
    return found


def run_peers(plan: Plan, only: str, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """`headrace bench peers`: rates, cycles and ratios of the cases that `only` chooses."""
    chosen = chosen_cases(only)
    rows: list[Row] = []
    with place() as where, running(where, with_l3fwd=True) as systems:
        for case in chosen:
            outcomes = {o.system: o for o in compare(case, systems, where, plan, say)}
            rows += list(figures.rows_of(case, outcomes))
            if case.classified is not None:
                rows += list(rte_acl.rows(case.name, *case.classified(), where, ACL_SAMPLES))
    rows += list(figures.flatness(rows, whole=not only))
    about = manifest(plan) | {
        "cycles": figures.CYCLES,
        "tsc_hz": tsc_hz(),
        "ovs_settings": "each case is probed twice with every setting that OVS offers (exact-match "
        "cache on or off, signature-match cache on or off; select groups by dp_hash or by hash); "
        "the fastest is measured and noted at its row",
        "ovs_gateways": gateways.OVS_EQUIVALENT,
    }
    return rows, about


def run_adversary(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """`headrace bench adversary`: honest goodput before and under each attack, in turn."""
    rows: list[Row] = []
    with place() as where, running(where, with_l3fwd=False) as systems:
        for attack in adversary.all_attacks():
            rows += list(_under_attack(attack, systems, where, plan, say))
    about = manifest(plan) | {
        "honest": f"{adversary.HONEST_FLOWS} flows",
        "kept": "goodput under attack / (goodput before x (1 - share)): the attack's share "
        "of the packets is left out, its cost is not",
        "share": {a.name: f"1 attack packet in {1 / a.share:.0f}" for a in adversary.all_attacks()},
    }
    return rows, about


def _under_attack(
    attack: adversary.Attack, systems: list[System], where: Place, plan: Plan, say: Say
) -> Iterator[Row]:
    honest = attack.honest_case()
    path = where.flow_dir / f"{honest.device}.frames"
    sets = {"honest": path.with_suffix(".honest"), "attacked": path.with_suffix(".attacked")}
    frames.write(sets["honest"], honest.make_frames())
    frames.write(sets["attacked"], attack.attacked_case().make_frames())
    for system in systems:
        frames.serve(path, sets["honest"])
        system.resume()
        system.load(honest)
        setting = best_setting(system, plan)
        if setting:
            system.resume()
            system.apply(setting)
        system.park()
        frames.serve(path, sets["attacked"])
        measure(system, 0.0, adversary.FILLING_S)
        rates = _in_turn(system, path, sets, plan)
        if min(rates["honest"]) <= 0:
            reason = "no honest packets arrived"
            yield skipped(f"{attack.name} {system.name} kept", "ratio", reason)
            continue
        for kind, pps in rates.items():
            mpps = [one / 1e6 for one in pps]
            yield row(f"{attack.name} {system.name} {kind}", mpps, "Mpps", note=setting or None)
        kept = [
            attacked / (before * (1 - attack.share))
            for before, attacked in zip(rates["honest"], rates["attacked"], strict=True)
        ]
        low, high = median_interval(kept) if len(kept) > 5 else (min(kept), max(kept))
        goal = attack.goal if system.name == "headrace" else None
        note = f"95 %: {low:.3f} to {high:.3f}" if len(kept) > 5 else None
        yield row(f"{attack.name} {system.name} kept", kept, "ratio", goal=goal, note=note)
        say(f"{attack.name}: {system.name} keeps {statistics.median(kept):.1%}; {note} {setting}")
    for written in (path, *sets.values()):
        written.unlink()


def _in_turn(
    system: System, path: Path, sets: dict[str, Path], plan: Plan
) -> dict[str, list[float]]:
    """Packets per second with each set of frames.

    In the order A B, B A, A B: a drift of the machine favours neither.
    """
    rates: dict[str, list[float]] = {kind: [] for kind in sets}
    for pair in range(plan.repeats):
        order = list(sets) if pair % 2 == 0 else list(reversed(sets))
        for kind in order:
            frames.serve(path, sets[kind])
            rates[kind].append(measure(system, plan.settle_s, plan.window_s))
    return rates
