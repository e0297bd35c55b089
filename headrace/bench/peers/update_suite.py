# SPDX-License-Identifier: Apache-2.0
"""`headrace bench updates`: how fast rules change, how soon they work, what traffic loses by it."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from headrace.bench.peers import updates
from headrace.bench.peers.account import Account, Source, Window
from headrace.bench.peers.bed import manifest, place, running
from headrace.bench.peers.cases import firewall, switching
from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.compare import Plan
from headrace.bench.peers.openflow import Refused
from headrace.bench.peers.switches import OpenVSwitchLike
from headrace.bench.peers.systems import Place
from headrace.bench.rows import Row, row, skipped

EFFECTS = 200  # flow-mods timed to their effect

Say = Callable[[str], None]


def run_updates(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """`headrace bench updates`: rule rates, time to effect, loss under churn."""
    rows: list[Row] = []
    with place() as where, running(where, with_l3fwd=False) as systems:
        switches = [system for system in systems if isinstance(system, OpenVSwitchLike)]
        toggle = switching.toggle()
        source = Source(toggle, where)
        source.open()
        for system in switches:
            system.resume()
            system.load(toggle)
            system.park()
        rows += list(_update_rates(switches, say))
        for system in switches:
            source.open()
            system.resume()
            time.sleep(0.2)
            rows += list(_effect(system, say))
            for what, churn in updates.CHURNS.items():
                rows += list(_churned(system, toggle, source, what, churn, plan, say))
            system.park()
        source.remove()
        rows += list(_firewall(switches, where, plan, say))
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


def _firewall(switches: list[OpenVSwitchLike], where: Place, plan: Plan, say: Say) -> Iterator[Row]:
    """Rules of the same kind come and go in a firewall's own table, above and among its rules."""
    case = firewall.firewall("acl", updates.FIREWALL_ENTRIES, popular=False)
    source = Source(case, where)
    for system in switches:
        source.close()
        system.resume()
        system.load(case)
        source.open()
        system.fill(case.filling_s)
        yield from _churned(
            system, case, source, "10k acl rule changes/s", updates.firewall_churn, plan, say
        )
        system.park()
    source.remove()


def _churned(
    system: OpenVSwitchLike,
    case: Case,
    source: Source,
    what: str,
    churn: updates.Churn,
    plan: Plan,
    say: Say,
) -> Iterator[Row]:
    """Losses, changes per second and packets per second beside a churn."""
    window = Window(system, case, source)
    windows: list[Account] = []
    changed = []
    for _ in range(max(3, plan.repeats // 2)):
        with churn(system) as changes:
            windows.append(window.account(2 * plan.window_s))
        changed.append(changes.per_second)
    lost = [one.lost for one in windows]
    # Not the median: a loss in any window is a loss.
    worst = max(windows, key=lambda one: abs(one.lost))
    where_lost = f"; {worst.told()}" if worst.lost and system.counts_arrivals else ""
    note = f"{statistics.median(changed):.0f} changes/s made{where_lost}"
    say(f"{what}: {system.name} lost {worst.lost} packets; {note}")
    ours = system.name == "headrace"
    yield row(
        f"{what} {system.name} lost",
        lost,
        "packets",
        goal=0 if ours else None,
        better="lower",
        note=note,
    ).model_copy(update={"value": worst.lost, "met": worst.lost == 0 if ours else None})
    if churn is updates.firewall_churn:
        goal = updates.CHURN_PER_SECOND if ours else None
        yield row(f"{what} {system.name} changes", changed, "1/s", goal=goal)
    yield row(f"{what} {system.name} rate", [one.pps / 1e6 for one in windows], "Mpps")
