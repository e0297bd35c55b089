# SPDX-License-Identifier: Apache-2.0
"""Waits for quiet before a trial, repeats a disturbed one, and stores what was seen with each.

Quiet is relative: on a machine whose generator shares its core with polling VNFs, gaps are normal.
So a core is quiet if it lost no more of the window than 1.5 times the median so far (and 2 % in any
case), and the chain of multiplications took no more than 10 % longer than at its best. After
`PATIENCE_S` the trial is run all the same; what was seen is stored with it.

So is a repetition: where every trial is disturbed as much (a worker that is hardly busy, on a
machine with other users), another round says more than another attempt.
"""

import asyncio
import statistics
import time
from dataclasses import asdict, replace

from headrace.bench.device import Device, TrialRequest
from headrace.bench.noise.probe import Glimpse, Probe
from headrace.bench.noise.steal import stolen_s
from headrace.results import Case, Purpose, Trial

WINDOW_S = 0.002
PATIENCE_S = 0.5
PAUSE_S = 0.02
CALM_SHARE = 0.02
TIMES_USUAL = 1.5
SLOWER = 1.1
USUAL_FROM = 4
"""Fewer trials of a subject don't say what is usual."""
REPEATS: dict[Purpose, int] = {"overload": 2, "latency": 2, "cost": 2, "search": 1, "loss": 1}
"""How often a disturbed trial is repeated. What lasts long or has an event is not."""


class Watch:
    """Watches the generator's core between trials, and the stolen time of all measured cores.

    Args:
        probe: watches the core; None watches nothing (a simulated bed).
        cores: those of switch, generator and VNFs.

    `transfer_ns` is how far the cores of switch and VNFs were apart when a subject began
    (transfer.py); None: not measured.
    """

    def __init__(self, probe: Probe | None, cores: list[int]) -> None:
        self._probe = probe
        self._cores = cores
        self.transfer_ns: float | None = None
        self._shares: list[float] = []
        self._fastest_ns = 0
        self._disturbances: dict[tuple[str, Purpose], list[float]] = {}

    def close(self) -> None:
        """Ends the probe."""
        if self._probe is not None:
            self._probe.close()

    def stolen_s(self) -> float | None:
        """Seconds stolen from the measured cores so far."""
        return stolen_s(self._cores)

    async def glimpse(self) -> Glimpse | None:
        """One look at the core."""
        if self._probe is None:
            return None
        seen = await asyncio.to_thread(self._probe.watch, WINDOW_S)
        if seen is not None:
            self._shares.append(seen.gap_share)
            self._fastest_ns = min(self._fastest_ns or seen.chain_ns, seen.chain_ns)
        return seen

    def quiet(self, seen: Glimpse) -> bool:
        """Whether the core is as undisturbed as it usually is."""
        usual = statistics.median(self._shares[-50:]) if self._shares else 0.0
        calm = seen.gap_share <= max(CALM_SHARE, TIMES_USUAL * usual)
        return calm and seen.chain_ns <= SLOWER * (self._fastest_ns or seen.chain_ns)

    def worth_repeating(self, case: Case, trial: Trial) -> bool:
        """Whether a trial was disturbed, and clearly more than its subject's usually are."""
        seen = self._disturbances.setdefault((case.subject, trial.purpose), [])
        usual = statistics.median(seen[-50:]) if len(seen) >= USUAL_FROM else 0.0
        seen.append(trial.disturbance)
        return trial.disturbed and trial.disturbance > TIMES_USUAL * usual

    async def wait(self) -> tuple[Glimpse | None, float]:
        """Waits until the core is quiet, at most `PATIENCE_S`; the last look and the wait."""
        begun = time.monotonic()
        seen = await self.glimpse()
        while seen is not None and not self.quiet(seen):
            if time.monotonic() - begun > PATIENCE_S:
                break
            await asyncio.sleep(PAUSE_S)
            seen = await self.glimpse()
        return seen, time.monotonic() - begun


class QuietDevice:
    """A device whose trials wait for quiet and are repeated if they were disturbed.

    Args:
        device: runs the trials.
        watch: looks at the machine around them.
    """

    def __init__(self, device: Device, watch: Watch) -> None:
        self._device = device
        self._watch = watch

    @property
    def case(self) -> Case:
        """The deployed case."""
        return self._device.case

    @property
    def ceiling_pps(self) -> float:
        """The highest load that the generator can send on this kind of port."""
        return self._device.ceiling_pps

    async def trial(self, request: TrialRequest) -> Trial:
        """One trial; of a disturbed one and its repeats the least disturbed.

        Raises:
            DeviceError: it could not be run.
        """
        best = last = await self._once(request, 1)
        if request.interleaved:
            return best
        for attempt in range(2, REPEATS.get(request.purpose, 0) + 2):
            if not self._watch.worth_repeating(self.case, last):
                break
            last = await self._once(request, attempt)
            best = min(best, last, key=lambda trial: trial.disturbance)
        return best

    async def _once(self, request: TrialRequest, attempt: int) -> Trial:
        if request.interleaved:
            seen, waited_s = None, 0.0
        else:
            seen, waited_s = await self._watch.wait()
        before = self._watch.stolen_s()
        trial = await self._device.trial(request)
        after = self._watch.stolen_s()
        stolen = None if before is None or after is None else after - before
        noise = {
            "before": asdict(seen) if seen else None,
            "waited_for_quiet_s": round(waited_s, 4),
            "stolen_s": stolen,
            "attempt": attempt,
            "transfer_ns": self._watch.transfer_ns,
        }
        return replace(trial, detail={**trial.detail, "noise": noise})
