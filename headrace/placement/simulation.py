# SPDX-License-Identifier: Apache-2.0
"""Chains that come and go on a set of servers, under several policies with the same demands.

Arrivals are Poisson; lifetimes are lognormal with a mean (long tails, as of virtual machines in
published cluster traces); demands are those of demands.py. Each policy gets the same chains at the
same times. A chain that a policy can't place is refused and does not come again.

The tenant's cost is what is refused and the latency of what is not; the operator's is the price of
the servers that are used over time, and the cores that switching takes. `consolidate` lets the last
policy move at most so many VNFs per hour to empty servers; they are counted.
"""

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from headrace.placement import demands
from headrace.placement.document import Document, parse
from headrace.placement.policies import POLICIES
from headrace.placement.problem import SWITCH, Floats, Problem, build
from headrace.placement.solver import empty_servers
from headrace.placement.state import State, shares

LIFETIME_SIGMA = 1.0


@dataclass(frozen=True)
class Setting:
    """What is simulated: hours, arrivals per hour, mean lifetime in hours, servers, seed.

    `consolidate`: VNFs that may be moved per hour; `samples`: points of each time series.
    """

    hours: float = 48.0
    per_hour: float = 40.0
    lifetime_h: float = 8.0
    servers: int = 60
    seed: int = 1
    consolidate: int = 20
    longest: int = 10
    samples: int = 200


@dataclass
class Outcome:
    """What a policy made of it.

    Attributes:
        arrivals, refused: chains.
        latency_us: of each placed chain when it was placed.
        runs: runs for each VNF placed (1: all distributed).
        cost: operator's, price of used servers x hours.
        servers: used, on average over time.
        switch_cores: cores that switching takes, on average over time.
        migrations: VNFs moved by consolidation.
        series: times in hours, servers used then, share refused until then.
        seconds: of this program for all decisions.
    """

    policy: str
    arrivals: int = 0
    refused: int = 0
    latency_us: list[float] = field(default_factory=list)
    runs: int = 0
    vnfs: int = 0
    cost: float = 0.0
    servers: float = 0.0
    switch_cores: float = 0.0
    migrations: int = 0
    series: list[tuple[float, int, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def refused_share(self) -> float:
        """Of the chains that came."""
        return self.refused / max(1, self.arrivals)


def scenario(setting: Setting) -> tuple[Document, Floats, Floats]:
    """The document of all chains that come, and when each comes and goes (hours)."""
    random = np.random.default_rng(setting.seed)
    count = int(random.poisson(setting.hours * setting.per_hour))
    comes = np.sort(random.uniform(0, setting.hours, count))
    mean = np.log(setting.lifetime_h) - LIFETIME_SIGMA**2 / 2
    goes = comes + random.lognormal(mean, LIFETIME_SIGMA, count)
    content = demands.document(
        setting.seed, count, setting.servers, longest=setting.longest, constrained=0.1
    )
    return parse(content), comes, goes


def simulate(setting: Setting, policies: Sequence[str]) -> list[Outcome]:
    """All policies over the same arrivals."""
    document, comes, goes = scenario(setting)
    problem = build(document)
    found = [_run(setting, problem, comes, goes, name, 0) for name in policies]
    if setting.consolidate and "headrace" in policies:
        found.append(_run(setting, problem, comes, goes, "headrace", setting.consolidate))
    return found


def _run(
    setting: Setting, problem: Problem, comes: Floats, goes: Floats, policy: str, moves: int
) -> Outcome:
    name = f"{policy}, {moves} moves per hour" if moves else policy
    told = Outcome(name)
    state, place = State(problem), POLICIES[policy](problem)
    leaving: list[tuple[float, int]] = []
    samples = np.linspace(0, setting.hours, setting.samples).tolist()
    scale = shares(problem)
    last, next_hour = 0.0, 1.0
    began = time.process_time()

    def advance(now: float) -> None:
        """Adds up what the time until `now` cost."""
        nonlocal last
        span = max(0.0, min(now, setting.hours) - last)
        used = state.used
        told.cost += span * state.cost()
        told.servers += span * int(used.sum())
        taken = (problem.capacity - state.free)[:, SWITCH]
        told.switch_cores += span * float((taken * problem.unit_cycles[problem.type_of]).sum())
        while samples and samples[0] <= now:
            told.series.append((samples.pop(0), int(used.sum()), told.refused_share))
        last = max(last, min(now, setting.hours))

    def until(now: float) -> None:
        """Chains that leave and, each hour, consolidation up to `now`."""
        nonlocal next_hour
        while True:
            leave = leaving[0][0] if leaving else np.inf
            hour = next_hour if moves else np.inf
            event = min(leave, hour)
            if event > now:
                break
            advance(event)
            if leave <= hour:
                state.remove(heapq.heappop(leaving)[1])
            else:
                told.migrations += empty_servers(state, scale, time.monotonic() + 5.0, moves)
                next_hour += 1.0
        advance(now)

    for chain, (start, end) in enumerate(zip(comes.tolist(), goes.tolist(), strict=True)):
        until(start)
        told.arrivals += 1
        servers = place(state, chain)
        if servers is None:
            told.refused += 1
            continue
        told.latency_us.append(state.latency(chain, servers) / 1000)
        told.runs += len(state.runs(chain, servers))
        told.vnfs += len(servers)
        state.put(chain, servers)
        heapq.heappush(leaving, (end, chain))
    until(setting.hours)
    told.servers /= setting.hours
    told.switch_cores /= setting.hours
    told.seconds = time.process_time() - began
    return told
