# SPDX-License-Identifier: Apache-2.0
"""The three comparisons as commands run them: peers, updates, adversary."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.peers import adversary, cases, figures, frames, gateways, updates
from headrace.bench.peers.compare import Plan, best_setting, compare, measure
from headrace.bench.peers.openflow import Refused
from headrace.bench.peers.systems import (
    Headrace,
    L3fwd,
    OpenVSwitchLike,
    OvsDpdk,
    PeerError,
    Place,
    System,
)
from headrace.bench.rows import Row, row, skipped
from headrace.machine.tsc import tsc_hz
from headrace.results.statistics import median_interval

BUILD = Path(__file__).resolve().parents[3] / "build"
CONTROL_CORE, WORKER_CORE = 0, 1
MEMORY_MB = 512
EFFECTS = 200  # flow-mods timed to their effect

Say = Callable[[str], None]


@contextmanager
def on_the_control_core() -> Iterator[None]:
    """Keeps this command, and what it starts, off the worker's core for as long as it lasts.

    Else the tools that it calls would take turns with the worker that is measured. The switches
    pin their workers themselves.
    """
    before = os.sched_getaffinity(0)
    if not {CONTROL_CORE, WORKER_CORE} <= before:
        raise PeerError("comparing switches needs cores 0 and 1: the rest's, and the worker's")
    os.sched_setaffinity(0, {CONTROL_CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def place() -> Iterator[Place]:
    """A run directory with the flow source, removed afterwards; PeerError with the remedy."""
    plugin = BUILD / "dataplane" / "flowsource" / "libheadrace-flowsource.so"
    if not plugin.exists():
        raise PeerError(f"{plugin} is missing; run `make build`")
    if os.geteuid() != 0:
        raise PeerError("comparing switches needs root: they poll pinned cores and hugepages")
    # DPDK refuses plugins under a world-writable directory such as /tmp.
    with (
        on_the_control_core(),
        tempfile.TemporaryDirectory(prefix="headrace-peers-", dir="/run") as folder,
    ):
        root = Path(folder)
        (root / "flows").mkdir()
        own = root / plugin.name
        own.write_bytes(plugin.read_bytes())
        yield Place(root, root / "flows", own, WORKER_CORE, MEMORY_MB)


@contextmanager
def running(where: Place, *, with_l3fwd: bool) -> Iterator[list[System]]:
    """Headrace, OVS-DPDK and perhaps l3fwd, the switches started; all ended afterwards."""
    program = BUILD / "dataplane" / "apps" / "headrace-switch"
    if not program.exists():
        raise PeerError(f"{program} is missing; run `make build`")
    ours, theirs = Headrace(where, program), OvsDpdk(where)
    with ExitStack() as stack:
        for switch in (ours, theirs):
            stack.callback(switch.stop)
            switch.start()
            switch.park()
        systems: list[System] = [ours, theirs]
        if with_l3fwd:
            systems.append(L3fwd(where))
            stack.callback(systems[-1].stop)
        yield systems


def manifest(plan: Plan) -> dict[str, Any]:
    """What the figures were taken with and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "l3fwd": "DPDK's example with LPM, built for this processor, soft packet types",
        "frames": "64 bytes with FCS",
        "source": "net_null with the flow source plugin (copies prepared frames), unpaced",
        "sink": "net_null",
        "worker_core": WORKER_CORE,
        "shared": f"core {CONTROL_CORE}: the switches' other threads (management, OpenFlow, "
        "OVSDB), this command and the tools that it calls, so a client and the switch that serves "
        f"it take turns; core {WORKER_CORE}: the worker, in which source and sink run too; "
        "only the measured system runs, the others are stopped",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s},
        "ratios": "median of the ratios of neighboring windows",
    }


def chosen_cases(only: str) -> list[cases.Case]:
    """The cases whose name holds one of the words of `only` (comma-separated); all without any.

    PeerError if that leaves none.
    """
    words = [word.strip() for word in only.split(",") if word.strip()]
    every = [*cases.all_cases(), *gateways.all_cases()]
    found = [case for case in every if not words or any(word in case.name for word in words)]
    if not found:
        raise PeerError(f"no case holds {only!r}: {', '.join(case.name for case in every)}")
    return found


def run_peers(plan: Plan, only: str, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """`headrace bench peers`: rates, cycles and ratios of the cases that `only` chooses."""
    chosen = chosen_cases(only)
    rows: list[Row] = []
    with place() as where, running(where, with_l3fwd=True) as systems:
        for case in chosen:
            outcomes = {o.system: o for o in compare(case, systems, where, plan, say)}
            rows += list(figures.rows_of(case, outcomes))
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
        "kept": "goodput under attack / (goodput before x (1 - share)): the attack's own place "
        "among the packets is left out, its cost is not",
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
            reason = "no honest packets came out"
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

    In the order A B, B A, A B: a drift of the machine makes neither better.
    """
    rates: dict[str, list[float]] = {kind: [] for kind in sets}
    for pair in range(plan.repeats):
        order = list(sets) if pair % 2 == 0 else list(reversed(sets))
        for kind in order:
            frames.serve(path, sets[kind])
            rates[kind].append(measure(system, plan.settle_s, plan.window_s))
    return rates


def run_updates(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """`headrace bench updates`: rule rates, time to effect, loss under churn."""
    rows: list[Row] = []
    with place() as where, running(where, with_l3fwd=False) as systems:
        toggle = cases.toggle()
        path = where.flow_dir / f"{toggle.device}.frames"
        frames.write(path, toggle.make_frames())
        switches = [system for system in systems if isinstance(system, OpenVSwitchLike)]
        for system in switches:
            system.resume()
            system.load(toggle)
            system.park()
        rows += list(_update_rates(switches, say))
        for system in switches:
            frames.write(path, toggle.make_frames())
            system.resume()
            time.sleep(0.2)
            rows += list(_effect(system, say))
            rows += list(_churned(system, where, plan, say))
            system.park()
    about = manifest(plan) | {
        "flow_mods": f"{updates.FLOWS} into an empty table that no packet gets to, and out again, "
        "while the worker polls a source of 30 million packets per second and more",
        "lost": "handed out by the source less sent to the sink, in windows with the source closed "
        "at both ends; where there is a loss, the note says at which counter packets are missing",
    }
    return rows, about


def _effect(system: OpenVSwitchLike, say: Say) -> Iterator[Row]:
    effect = updates.time_to_effect(system, EFFECTS)
    note = f"of {EFFECTS}; a reading alone takes {effect.reading:.3f} ms"
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        value = effect.percentile(share)
        yield row(f"time to effect {name} {system.name}", [value], "ms", note=note)
    say(f"time to effect: {system.name} p50 {effect.percentile(0.5):.3f} ms, {note}")


def _update_rates(switches: list[OpenVSwitchLike], say: Say) -> Iterator[Row]:
    for kind, flows in (
        ("exact", updates.exact_flows()),
        ("prefix", updates.prefix_flows()),
    ):
        for bundled in (False, True):
            mode = "bundle" if bundled else "single"
            rates: dict[str, list[float]] = {}
            refused: dict[str, str] = {}
            for _ in range(3):
                for system in switches:
                    system.resume()
                    try:
                        found = updates.flow_mods_per_second(system, flows, bundled=bundled)
                    except Refused as reason:
                        refused[system.name] = str(reason)
                        continue
                    finally:
                        system.park()
                    for verb, rate in found.items():
                        rates.setdefault(f"{verb} {system.name}", []).append(rate)
            for what, samples in rates.items():
                goal = updates.GOAL_PER_SECOND if what == "add headrace" else None
                name = f"flow-mods {kind} {mode} {what}"
                say(f"{name}: {statistics.median(samples) / 1e3:.0f} k/s")
                yield row(name, samples, "1/s", goal=goal)
            for name, why in refused.items():
                goal = updates.GOAL_PER_SECOND if name == "headrace" else None
                yield skipped(f"flow-mods {kind} {mode} {name}", "1/s", why, goal=goal)


def _churned(system: OpenVSwitchLike, where: Place, plan: Plan, say: Say) -> Iterator[Row]:
    churned = updates.Window(system, where)
    for what, churn in updates.CHURNS.items():
        windows: list[updates.Account] = []
        changed = []
        for _ in range(max(3, plan.repeats // 2)):
            start = time.monotonic()
            with churn(system) as changes:
                windows.append(churned.account(2 * plan.window_s))
            changed.append(changes.made / (time.monotonic() - start))
        lost = [one.lost for one in windows]
        # Not the median: a loss in any window is a loss.
        worst = max(windows, key=lambda one: abs(one.lost))
        where_lost = f"; {worst.told()}" if worst.lost and system.counts_arrivals else ""
        note = f"{statistics.median(changed):.0f} changes/s made{where_lost}"
        say(f"{what}: {system.name} lost {worst.lost} packets; {note}")
        goal = 0 if system.name == "headrace" else None
        yield row(
            f"{what} {system.name} lost", lost, "packets", goal=goal, better="lower", note=note
        ).model_copy(update={"value": worst.lost, "met": None if goal is None else worst.lost == 0})
        yield row(f"{what} {system.name} rate", [one.pps / 1e6 for one in windows], "Mpps")
