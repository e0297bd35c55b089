# SPDX-License-Identifier: Apache-2.0
"""`headrace bench predictions`: what a node predicts of random graphs, beside what they carry.

Each graph is deployed on a node that has the model; the prediction is the one that the node stored
with the graph, before anything was sent. Then the graph gets all that it takes (source and sink in
the switch's worker), several times; the median of the rates counts, if switch or VNFs were the
limit. Graphs are chains of 1 to 4 VNFs, and up to 3 side by side, of random frame sizes.

A model holds for the distance between the cores at which it was measured (mechanistic/distance.py).
Each trial waits for that state, `PATIENCE_S` at most, and counts if the cores are in it after the
trial, too. A graph that has not enough such trials after `TRIES` times as many as are wanted has no
error but that reason.

With a file to keep them in, graphs that were judged are not measured again, so that the command can
be given several times, some minutes each (`headrace/bench/kept_predictions.py`).
"""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from headrace.bench.core_plan import plan_cores
from headrace.bench.device import Device, TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.kept_predictions import Kept
from headrace.bench.manifest import machine
from headrace.bench.plan import Block, Job
from headrace.bench.rows import Row, row, skipped
from headrace.bench.scenario import Measure
from headrace.bench.subject import Subject
from headrace.bench.testbed import Testbed
from headrace.model.mechanistic import stored
from headrace.model.mechanistic.distance import is_same, usual
from headrace.results import Case, Trial

Say = Callable[[str], None]

NAME = "random"
SHARED = "shared core; "
GOAL_MEDIAN, GOAL_95 = 10.0, 20.0
LIMITERS = ("switch", "VNF")
TRIES = 3
PATIENCE_S = 10.0
"""That a trial waits for the state of the model."""
PAUSE_S = 0.3


def random_cases(seed: int, count: int, subject: Subject) -> list[Case]:
    """Different graphs and frame sizes, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311
    found: dict[tuple[str, int, int], Case] = {}
    while len(found) < count:
        parallel = chance.random() < 0.25
        vnfs = chance.randint(2, 3) if parallel else chance.randint(1, 4)
        size = chance.randint(64, 1518)
        shape = "parallel" if parallel else "chain"
        found[shape, vnfs, size] = Case(
            scenario=NAME,
            shape=shape,  # type: ignore[arg-type]
            vnfs=vnfs,
            placement="distribute" if parallel else "gather",
            switch=subject.switch,
            ports=subject.outer_ports,
            vnf_ports=subject.inner_ports,
            function=subject.function,
            engine=subject.engine,
            size=str(size),
            flows=chance.choice([10, 100, 1000]),
        )
    return list(found.values())


async def _one(
    bed: Testbed, case: Case, repeats: int, seconds: float, wanted: float | None
) -> tuple[Any, list[Trial], str]:
    """The node's prediction of a case, its trials, and why they are not those of the model."""
    block = Block(case.shape, case.vnfs, case.prefixes, [Job(case, Measure(overload=True))])
    await bed.deploy(block, case.subject, {"bytes": float(case.size)})
    try:
        predicted = await bed.prediction(case)
        device = await bed.device(case)
        trials, other = await trials_in_state(
            device, lambda: bed.distance(case), wanted, repeats, seconds
        )
    finally:
        await bed.withdraw(block, case.subject)
    return predicted, trials, other


async def trials_in_state(
    device: Device,
    distance: Callable[[], Awaitable[float | None]],
    wanted: float | None,
    repeats: int,
    seconds: float,
) -> tuple[list[Trial], str]:
    """Trials with the cores in the model's state before and after each.

    Args:
        device: that runs them.
        distance: how far apart the cores are now; None: not known.
        wanted: the same when the model was measured; None: any will do.
        repeats: how many trials.
        seconds: of a trial.

    Returns:
        The trials, and if they are too few, in what the machine's state was another one, or that
        pollers did not share their core evenly.
    """
    trials: list[Trial] = []
    missed = ""
    for number in range(TRIES * repeats):
        other = await _waited(distance, wanted)
        if other:
            return trials, other  # the machine stays in it
        trial = await device.trial(TrialRequest(number, "overload", seconds, None))
        other = trial.unequal_sessions or another_state(wanted, [await distance()])
        if other:
            missed = other
            continue
        trials.append(trial)
        if len(trials) == repeats:
            return trials, ""
    return trials, missed


async def _waited(distance: Callable[[], Awaitable[float | None]], wanted: float | None) -> str:
    """Waits for the model's state; in what the machine's state still is another one."""
    until = time.monotonic() + PATIENCE_S
    while True:
        other = another_state(wanted, [await distance()])
        if not other or time.monotonic() > until:
            return other
        await asyncio.sleep(PAUSE_S)


def another_state(wanted: float | None, seen: Sequence[float | None]) -> str:
    """In what the machine's state was not the model's, empty if it was, or nobody knows."""
    off = [one for one in seen if one is not None and wanted and not is_same(one, wanted)]
    if not off:
        return ""
    return f"the cores were {off[0]:.0f} ns apart, {wanted:.0f} when the model was measured"


def _under_overload(told: dict[str, Any], trial: Trial) -> float:
    """What is left of a predicted rate when the switch is the limit and VNFs' ports refuse packets.

    The prediction is of what can be carried. Under overload the switch takes more, and what a VNF's
    port then refuses has cost it the entry (packets and octets of its terms) all the same. Of VNFs
    that share a core the counters do not say whether they were the limit: there it is so where the
    switch is predicted to be it.
    """
    evidence = (trial.detail.get("limiter") or {}).get("evidence") or []
    shares = [one.get("refused_share") for one in evidence if one.get("role") == "switch"]
    share = min(0.95, shares[0]) if shares and shares[0] else 0.0
    parts = [one for one in told["roles"] if one["role"] == "switch"]
    limits = trial.limiter == "switch" or (_shares(told) and told["limiter"] == ["switch"])
    if not limits or not share or not parts:
        return 1.0
    whole, of = float(parts[0]["cycles"]["value"]), parts[0]["parts"]
    entry = float(of.get("packets", 0.0)) + float(of.get("octets", 0.0))
    return whole / (whole + share / (1 - share) * entry)


def by_role(told: dict[str, Any], trial: Trial) -> str:
    """Predicted and counted cycles of a packet that came through, for the cause of an error."""
    if trial.received <= 0:
        return ""
    counters = trial.detail.get("counters") or {}
    found: list[str] = []
    for role in told["roles"]:
        name = "switch" if role["role"] == "switch" else "vnf"
        some = [of for key, of in counters.items() if key.startswith(name)]
        counted = [float(of["busy_cycles"]) for of in some if of.get("busy_cycles")]
        if counted and not (name == "vnf" and any("VNFs" in one for one in found)):
            # A VNF's counters do not bear the graph's names: all of them together.
            same = [one for one in told["roles"] if (one["role"] == "switch") == (name == "switch")]
            cycles = sum(float(one["cycles"]["value"]) for one in same)
            words = "switch" if name == "switch" else "VNFs"
            found.append(
                f"{words} {cycles:.0f}, counted {sum(counted) / trial.received:.0f} cycles"
            )
    return "; ".join(found) + "; " if found else ""


def _shares(told: dict[str, Any]) -> bool:
    """Whether several of a prediction's roles are on one core."""
    cores = [one.get("core", one["role"]) for one in told["roles"]]
    return len(set(cores)) < len(cores)


def judge(
    case: Case, predicted: dict[str, Any], trials: Sequence[Trial], other_state: str = ""
) -> Row:
    """One graph's row: the error of the prediction in percent, or why there is none."""
    name = f"{case.graph} {case.size} B: prediction error"
    if other_state:
        return skipped(name, "%", other_state)
    if predicted["predicted"] is None:
        return skipped(name, "%", f"not predicted: {predicted['reason']}")
    told = predicted["predicted"]
    own = [trial for trial in trials if trial.limiter in LIMITERS]
    if not own:
        limiters = ", ".join(sorted({trial.limiter for trial in trials}))
        return skipped(name, "%", f"neither switch nor VNFs were the limit ({limiters})")
    measured = statistics.median(trial.rx_pps for trial in own)
    factor = statistics.median(_under_overload(told, trial) for trial in own)
    top = {bound: factor * value for bound, value in told["saturation_pps"].items()}
    inside = top["low"] <= measured <= top["high"]
    at = min(own, key=lambda trial: abs(trial.rx_pps - measured))
    bound = "an upper bound; " if told.get("upper_bound") else ""
    bound = (SHARED if _shares(told) else "") + bound
    note = (
        f"{bound}{by_role(told, at)}predicted {top['value'] / 1e6:.3f} "
        f"[{top['low'] / 1e6:.3f} .. {top['high'] / 1e6:.3f}] "
        f"by {' and '.join(told['limiter'])}, measured {measured / 1e6:.3f} Mpps by "
        f"{own[0].limiter}: {'inside' if inside else 'outside'}"
    )
    return row(name, [100 * abs(top["value"] / measured - 1)], "%", note=note)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Over all graphs: median and 95th percentile of the errors, and how many intervals hold."""
    errors = sorted(one.value for one in rows if one.value is not None)
    if not errors:
        reason = "no graph had a prediction and a limit of its own"
        return [skipped("all graphs: median error", "%", reason, goal=GOAL_MEDIAN)]
    last = errors[min(len(errors) - 1, round(0.95 * (len(errors) - 1)))]
    inside = sum("inside" in (one.note or "").rsplit(":", 1)[-1] for one in rows)
    told = f"{len(errors)} of {len(rows)} graphs"
    found = row(
        "all graphs: median error", errors, "%", goal=GOAL_MEDIAN, better="lower", note=told
    )
    worst = row("all graphs: 95 % of the errors", [last], "%", goal=GOAL_95, better="lower")
    last_one = max((one for one in rows if one.value is not None), key=lambda one: one.value or 0.0)
    worst.note = f"the worst is {last_one.name}: {last_one.note}"
    held = row("all graphs: measured within the 95 % interval", [float(inside)], "graphs")
    own = [one for one in rows if one.value is not None and SHARED not in (one.note or "")]
    text = "graphs without a shared core: median error"
    if not own:
        return [found, worst, held, skipped(text, "%", "every graph had pollers on one core")]
    alone = row(text, [one.value for one in own if one.value is not None], "%")
    return [found, worst, held, alone]


async def measure(
    model: Path,
    subject: Subject,
    say: Say,
    *,
    graphs: int,
    seed: int,
    repeats: int,
    seconds: float,
    keep: Path | None = None,
    minutes: float | None = None,
) -> tuple[list[Row], dict[str, Any]]:
    """All rows and the manifest.

    Graphs in the file `keep` are not measured again. After `minutes` none is begun, and the others
    are skipped with that reason.

    Raises:
        DeviceError: the node or the generator did not start.
        ValueError: `keep` is of another model, machine, seed or length of trials.
    """
    kept = Kept(keep, model, [subject.node, seed, repeats, seconds])
    cases = random_cases(seed, graphs, subject)
    names = [f"{case.shape} of {case.vnfs} {case.size} B" for case in cases]
    until = time.monotonic() + 60 * minutes if minutes else float("inf")
    bed = Testbed([subject], plan_cores(), quick=True, settings={"model": str(model)})
    rows: list[Row] = []
    wanted = usual(role.transfer_ns for role in stored.read(model).roles.values())
    await bed.up()
    try:
        for name, case in zip(names, cases, strict=True):
            before = kept.row(name)
            if before is not None:
                rows.append(before)
                continue
            if time.monotonic() > until:
                rows.append(skipped(f"{case.graph} {case.size} B", "%", "the time was over"))
                continue
            try:
                predicted, trials, other = await _one(bed, case, repeats, seconds, wanted)
                rows.append(judge(case, predicted, trials, other))
                if not other:
                    kept.add(name, rows[-1])
            except DeviceError as error:
                rows.append(skipped(f"{case.graph} {case.size} B", "%", str(error)))
            say(f"{rows[-1].name}: {rows[-1].value or rows[-1].skipped}")
    finally:
        await bed.down()
    manifest = {
        "machine": machine(),
        "model": str(model),
        "model_transfer_ns": wanted,
        "seed": seed,
        "subject": subject.node,
        "definitions": {
            "predicted": "saturation that the node stored with the graph when it was deployed",
            "measured": "median of the rates under overload that switch or VNFs limited; the "
            "prediction is then less what the entry of refused packets costs the switch",
        },
    }
    return [*summary(rows), *rows], manifest


def run(
    model: Path,
    subject: Subject,
    say: Say,
    *,
    graphs: int,
    seed: int,
    repeats: int,
    seconds: float,
    keep: Path | None = None,
    minutes: float | None = None,
) -> tuple[list[Row], dict[str, Any]]:
    """`measure` in an event loop of its own."""
    return asyncio.run(
        measure(
            model.resolve(),
            subject,
            say,
            graphs=graphs,
            seed=seed,
            repeats=repeats,
            seconds=seconds,
            keep=keep,
            minutes=minutes,
        )
    )
