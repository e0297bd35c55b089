# SPDX-License-Identifier: Apache-2.0
"""Measures experiments one after another as one campaign, each with a bed of its own.

So each has the time that its file gives it, and one whose bed does not start costs the others
nothing. What can't be measured here is skipped with its reason before anything is started.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from headrace.bench.campaign import Campaign, Progress
from headrace.bench.command_run import run_command
from headrace.bench.errors import DeviceError
from headrace.bench.experiments import CommandExperiment, Experiment
from headrace.bench.lacking import lack, lacks, runnable
from headrace.bench.manifest import build
from headrace.bench.plan import Clock, blocks_of
from headrace.bench.profiles import SMALL
from headrace.bench.scenario import About, Scenario
from headrace.bench.session import Options, bed_of, ended_by_signals, relocated, stored_status
from headrace.results import Skip
from headrace.results.emulation import NOTE, is_emulated
from headrace.results.store import Store

MINUTES = 5.0
"""For an experiment whose file says nothing."""

SIMULATED = "devices are simulated: commands are not run"

Say = Callable[[str], None]


def minutes_of(experiment: About) -> float:
    """How long measuring it takes, by its file."""
    return experiment.minutes or MINUTES


def described(experiment: Experiment) -> dict[str, Any]:
    """What the report needs to know of an experiment."""
    kept = {"name", "title", "question", "papers", "profile", "minutes", "figures", "command"}
    return experiment.model_dump(mode="json", include=kept)


async def measure_each(
    experiments: Sequence[Experiment],
    store: Store,
    options: Options,
    progress: Progress,
    say: Say,
    minutes: float | None = None,
) -> int:
    """Measures experiments as one campaign and returns its number.

    `minutes` is for each, instead of what its file says; `options.rounds` at most.
    """
    scenarios = [one for one in experiments if isinstance(one, Scenario)]
    budget_s = 60 * sum(minutes or minutes_of(one) for one in experiments)
    manifest = build(scenarios, options.plan, options.timing, budget_s, options.seed)
    if options.lab is not None:
        manifest["lab"] = options.lab.model_dump(mode="json")
    manifest["experiments"] = [described(one) for one in experiments]
    if is_emulated(manifest):
        say(f"note: {NOTE}")
    number = store.begin(manifest)
    with ended_by_signals(), stored_status(store, number):
        for at, one in enumerate(experiments, 1):
            say(f"{at}/{len(experiments)} {one.name}: {one.title}")
            begun = time.monotonic()
            for need in one.needs:
                if (reason := lack(need.needs, options.lab)) is not None:
                    _skip(store, number, progress, Skip(one.name, need.what, "", reason))
            its = minutes or minutes_of(one)
            if isinstance(one, CommandExperiment) and options.simulate:
                what = f"headrace {' '.join(one.command)}"
                _skip(store, number, progress, Skip(one.name, what, "", SIMULATED))
            elif isinstance(one, CommandExperiment):
                await _command(one, store, number, progress, its)
            else:
                await _cases(one, store, number, progress, options, its, manifest)
            took = manifest.setdefault("took_s", {})
            took[one.name] = round(time.monotonic() - begun, 1)
            store.set_manifest(number, manifest)
    return number


def _skip(store: Store, number: int, progress: Progress, skip: Skip) -> None:
    store.add_skip(number, skip)
    progress.skipped(skip)


async def _command(
    one: CommandExperiment, store: Store, number: int, progress: Progress, minutes: float
) -> None:
    try:
        rows = await run_command(one.command, minutes)
    except DeviceError as error:
        what = f"headrace {' '.join(one.command)}"
        _skip(store, number, progress, Skip(one.name, what, "", str(error)))
        return
    for row in rows:
        store.add_command_row(number, one.name, row)
        if row.get("skipped"):
            _skip(store, number, progress, Skip(one.name, row["name"], "", row["skipped"]))


async def _cases(
    one: Scenario,
    store: Store,
    number: int,
    progress: Progress,
    options: Options,
    minutes: float,
    manifest: dict[str, Any],
) -> None:
    one = relocated(one, options.lab)
    for case, reason in lacks(one, options.plan, options.lab).items():
        _skip(store, number, progress, Skip(one.name, case.name, case.subject, reason))
    here = runnable(one, options.plan, options.lab)
    if here is None:
        return
    blocks = blocks_of([here])
    quick = options.quick or one.profile == SMALL
    own: dict[str, Any] = {}
    try:
        async with bed_of([here], options, own, quick) as bed:
            clock = Clock(60 * minutes, options.timing)
            campaign = Campaign(store, number, bed, progress, options.timing, options.seed)
            await campaign.run(blocks, clock, min(options.rounds, one.rounds))
    except DeviceError as error:
        for case in here.cases():
            _skip(store, number, progress, Skip(one.name, case.name, case.subject, str(error)))
    manifest.setdefault("beds", {})[one.name] = own
    manifest.update({key: own[key] for key in ("generator", "priority", "simulated") if key in own})
