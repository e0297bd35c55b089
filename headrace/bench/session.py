# SPDX-License-Identifier: Apache-2.0
"""One campaign from start to end, for `run` and `bench run`: start the bed, rounds, stop it.

On any end (an error, Ctrl-C, SIGTERM) the bed is stopped and the campaign's status is stored.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.bench.campaign import Bed, Campaign, Progress, SimulatedBed
from headrace.bench.core_plan import CorePlan, plan_cores
from headrace.bench.errors import DeviceError
from headrace.bench.lab import Lab, in_lab
from headrace.bench.manifest import build
from headrace.bench.plan import Clock, blocks_of
from headrace.bench.precision import questions
from headrace.bench.priority import raise_priority
from headrace.bench.resume import restore
from headrace.bench.same_build import SameBuild, judge, run_twice
from headrace.bench.scenario import Measure, Scenario
from headrace.bench.settings import DEFAULT_MINUTES
from headrace.bench.simulated import DeviceModel
from headrace.bench.steps import Timing
from headrace.bench.subject import Subject
from headrace.bench.testbed import Testbed
from headrace.results.store import Store

SIMULATED = {
    "headrace": DeviceModel(cycles=130, noise=0.04),
    "ovs-dpdk": DeviceModel(cycles=260, noise=0.04),
    "linux-bridge": DeviceModel(cycles=3000, noise=0.04),
}
"""The simulated machine of `--simulate`, to try a scenario without using the real one."""


SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Once:
    """Calls a function the first time only."""

    def __init__(self, function: Callable[[], object] | None) -> None:
        self._function = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


@dataclass(frozen=True)
class Options:
    """How to run a campaign.

    Attributes:
        minutes: time for all rounds together, after set-up.
        quick: no searches and fewer loads; about a minute.
        rounds: at most that many rounds.
        seed: of all random choices.
        simulate: simulated devices instead of nodes.
        lab: NICs instead of ports in shared memory.
    """

    minutes: float = DEFAULT_MINUTES
    quick: bool = False
    rounds: int = 1000
    seed: int = 1
    simulate: bool = False
    plan: CorePlan = field(default_factory=plan_cores)
    lab: Lab | None = None

    @property
    def timing(self) -> Timing:
        """Durations of trials."""
        return Timing(trial_s=0.1, cost_s=0.25) if self.quick else Timing()


def quickened(scenario: Scenario) -> Scenario:
    """The scenario without searches and with its lowest and highest load only."""
    loads = sorted(scenario.measure.loads_pps)
    measure = Measure(
        overload=scenario.measure.overload or scenario.measure.search is not None,
        loads_pps=list(dict.fromkeys([loads[0], loads[-1]])) if loads else [],
    )
    return scenario.model_copy(update={"measure": measure})


def relocated(scenario: Scenario, lab: Lab | None) -> Scenario:
    """The scenario on a lab's NICs, if there is one."""
    if lab is None:
        return scenario
    subjects = []
    for subject in map(in_lab, scenario.subjects):
        subjects += [subject] if subject not in subjects else []
    return scenario.model_copy(update={"subjects": subjects})


def subjects_of(scenarios: Sequence[Scenario]) -> list[Subject]:
    """The distinct subjects of the scenarios, in the order of first use."""
    found: list[Subject] = []
    for scenario in scenarios:
        found += [subject for subject in scenario.subjects if subject not in found]
    return found


@contextlib.asynccontextmanager
async def bed_of(
    scenarios: Sequence[Scenario],
    options: Options,
    manifest: dict[str, Any],
    quick: bool | None = None,
) -> AsyncIterator[Bed]:
    """The bed of these scenarios, started; what it is goes into the manifest.

    `quick` shortens the calibration, by default as `options` say.
    """
    if options.simulate:
        manifest["simulated"] = True
        yield SimulatedBed(SIMULATED, options.seed)
        return
    manifest["priority"] = raise_priority()
    sent = {scenario.name: scenario.traffic for scenario in scenarios}
    testbed = Testbed(
        subjects_of(scenarios),
        options.plan,
        options.quick if quick is None else quick,
        sent,
        lab=options.lab,
        most_vnfs=max(case.vnfs for scenario in scenarios for case in scenario.cases()),
    )
    try:
        await testbed.up()
        manifest["nodes"] = testbed.information
        if testbed.calibration is not None:
            ceilings = testbed.port_ceilings.values()
            manifest["generator"] = {
                **testbed.calibration.model_dump(),
                "ports": [ceiling.as_dict() for ceiling in ceilings],
                "not_calibrated": testbed.not_calibrated,
            }
        yield testbed
    finally:
        # Shielded: a second Ctrl-C must not leave a poller running.
        await asyncio.shield(testbed.down())


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """The first signal cancels the current task; further ones must not interrupt the cleanup."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    ending = _Once(task.cancel if task is not None else None)
    for number in SIGNALS:
        loop.add_signal_handler(number, ending)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def stored_status(store: Store, *campaigns: int) -> Iterator[None]:
    """Stores how the campaigns ended, however that is."""
    status = "failed"
    try:
        yield
        status = "complete"
    except (asyncio.CancelledError, KeyboardInterrupt):
        status = "interrupted"
        raise
    except DeviceError as error:
        status = f"failed: {error}"
        raise
    finally:
        for number in campaigns:
            store.finish(number, status)


async def measure_twice(
    scenarios: Sequence[Scenario], store: Store, options: Options, progress: Progress
) -> SameBuild:
    """Measures the same build as two campaigns in turn (A/A) and compares them.

    Raises:
        DeviceError: the bed can't be started (no generator).
    """
    if options.quick:
        scenarios = [quickened(scenario) for scenario in scenarios]
    budget_s = 60 * options.minutes
    manifest = build(scenarios, options.plan, options.timing, budget_s, options.seed)
    both = (store.begin(manifest), store.begin(manifest))
    with ended_by_signals(), stored_status(store, *both):
        async with bed_of(scenarios, options, manifest) as bed:
            for number, other in (both, both[::-1]):
                store.set_manifest(number, {**manifest, "interleaved_with": other})
            rounds = await run_twice(
                store,
                both,
                bed,
                blocks_of(scenarios),
                progress,
                options.timing,
                Clock(budget_s, options.timing),
                options.rounds,
                options.seed,
            )
    return judge(store, *both, rounds)


async def measure(
    scenarios: Sequence[Scenario],
    store: Store,
    options: Options,
    progress: Progress,
    resume: int | None = None,
) -> int:
    """Runs one campaign, or goes on with campaign `resume`, and returns its number.

    Raises:
        DeviceError: the bed can't be started (no generator).
    """
    scenarios = [relocated(scenario, options.lab) for scenario in scenarios]
    if options.quick:
        scenarios = [quickened(scenario) for scenario in scenarios]
    budget_s = 60 * options.minutes
    manifest = build(scenarios, options.plan, options.timing, budget_s, options.seed)
    manifest["quick"] = options.quick
    blocks = blocks_of(scenarios)
    manifest["headline"] = questions(blocks)
    if resume is None:
        number = store.begin(manifest)
    else:
        number = resume
        store.reopen(number)
        manifest["resumed"] = [*store.campaign(number).manifest.get("resumed", []), time.time()]
    with ended_by_signals(), stored_status(store, number):
        async with bed_of(scenarios, options, manifest) as bed:
            store.set_manifest(number, manifest)
            campaign = Campaign(store, number, bed, progress, options.timing, options.seed)
            first = 0
            if resume is not None:
                campaign.expect(blocks)
                first = restore(campaign, store, number)
            clock = Clock(budget_s, options.timing)
            await campaign.run(blocks, clock, first + options.rounds, first)
    return number
