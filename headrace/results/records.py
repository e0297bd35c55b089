# SPDX-License-Identifier: Apache-2.0
"""The records of measurements, written by bench and read by model and report.

These are plain, frozen records, so that modules that depend only on results (model, report) need
nothing from the module that produces them (bench).

A **case** is one point of a scenario: a graph shape on a switch with one frame size and number of
flows. A **trial** is one run at one load. A **sample** is one value of one metric, computed
from trials in one round (a search gives one `ndr` sample, a fixed load one `cpu_percent` sample).
A **skip** is a case that could not be measured, with the reason.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

Shape = Literal["p2p", "parallel", "chain"]
Placement = Literal["none", "gather", "distribute"]
Purpose = Literal[
    "warmup", "search", "overload", "latency", "cost", "loss", "burst", "soak", "recovery", "event"
]
Relation = Literal["=", ">=", "<"]
"""Whether a value is that, at least that, or an upper bound that was not reached."""

DISTURBED = 0.10
"""A trial is disturbed if other programs took more than this share of what it measures."""

UNITS: dict[str, str] = {
    "ndr": "pps",
    "pdr": "pps",
    "ndr-quick": "pps",
    "pdr-quick": "pps",
    "mrr": "pps",
    "throughput": "bit/s",
    "cpu_percent": "% of a core",
    "vnf_cpu_percent": "% of a core",
    "cycles_per_packet": "TSC cycles",
    "loss_ratio": "",
    "latency_p50": "ns",
    "latency_p90": "ns",
    "latency_p99": "ns",
    "latency_p99_9": "ns",
    "latency_min": "ns",
    "pdv": "ns",
    "burst_frames": "frames",
    "buffer_time": "ns",
    "recovery_time": "ns",
    "outage_time": "ns",
}
"""Unit of each metric. Rates are packets per second summed over all streams, one direction."""


@dataclass(frozen=True)
class Case:
    """One point of a scenario.

    Attributes:
        scenario: name of the scenario file that asks for it.
        shape: how the VNFs are joined; `p2p` has none.
        vnfs: number of VNFs on this machine.
        placement: the placement of Luizelli that the shape represents (`none` if neither).
        switch: headrace, ovs-dpdk or linux-bridge.
        ports: kind of the physical ports that the generator is attached to.
        vnf_ports: kind of the ports between switch and VNF ("" if there is no VNF).
        function: what each VNF does ("" if there is no VNF).
        engine: how each VNF runs ("" if there is no VNF).
        size: frame size with FCS in bytes, or the name of a mix.
        flows: number of distinct flows that the generator sends.
        prefixes: rules at the entry, one for each /24 of destinations; 0 is one rule by port.
        variant: what else is not as usual, words apart by spaces, in this order: `both-ways`
            (traffic in both directions, rates are of both together), `workers=2` (of the switch),
            `taken=100` (TSC cycles that each frame costs the switch's worker besides), `nodes=2
            joined=veth` (as many nodes in a row, and by what they are joined).
    """

    scenario: str
    shape: Shape
    vnfs: int
    placement: Placement
    switch: str
    ports: str
    vnf_ports: str
    function: str
    engine: str
    size: str
    flows: int
    prefixes: int = 0
    variant: str = ""

    def varied(self, word: str, otherwise: str = "") -> str:
        """The value of a word of the variant: of `workers` in `workers=2` it is `2`."""
        for part in self.variant.split():
            name, _, value = part.partition("=")
            if name == word:
                return value or "yes"
        return otherwise

    @property
    def graph(self) -> str:
        """The shape as one word: `p2p`, `pvp`, `pvpv2` (two in parallel), `pvvp2` (in a chain)."""
        if self.shape == "p2p":
            return f"l3x{self.prefixes}" if self.prefixes else "p2p"
        if self.vnfs == 1:
            return "pvp"
        return f"pvpv{self.vnfs}" if self.shape == "parallel" else f"pvvp{self.vnfs}"

    @property
    def traversals(self) -> int:
        """How often a packet crosses a switch: n VNFs in a chain n + 1, a parallel one 2."""
        once = {"p2p": 1, "parallel": 2, "chain": self.vnfs + 1}[self.shape]
        return once * int(self.varied("nodes", "1"))

    @property
    def frames(self) -> str:
        """The frame size for people: `64B`, `imix-csit`."""
        return f"{self.size}B" if self.size.isdigit() else self.size

    @property
    def subject(self) -> str:
        """The switch and its port kinds, and its variant: the unit of comparison."""
        inner = f"+{self.vnf_ports}" if self.vnf_ports and self.vnf_ports != self.ports else ""
        return " ".join(f"{self.switch}/{self.ports}{inner} {self.variant}".split())

    @property
    def deployment(self) -> str:
        """The subject with the engine and function of its VNFs where these are not the usual."""
        usual = ("", "process", "native"), ("", "pass", "bridge")
        words = [self.engine] if self.engine not in usual[0] else []
        words += [self.function] if self.function not in usual[1] else []
        return " ".join([self.subject, *words])

    @property
    def name(self) -> str:
        """Name in CSIT's manner, unique within a scenario: `64B-1000f-pvpv2@ovs-dpdk/vhost-user`.

        The placement is part of it only where the same graph serves two questions.
        """
        return f"{self.frames}-{self.flows}f-{self.graph}@{self.deployment}"


@dataclass(frozen=True)
class Trial:
    """One run at one load, as the generator and the switch counted it.

    Attributes:
        round: number of the round of the campaign, from 0.
        purpose: what the trial was run for.
        intended_pps: requested load, summed over the streams (None: as fast as possible).
        duration_s: seconds during which frames were sent.
        loss_ratio: (lost + unsent) / intended, as in RFC 2544 and MLRsearch.
        busy_cycles: TSC cycles that the switch's workers spent on packets (None: not readable).
        waited_cycles: TSC cycles for which the kernel kept the workers from their core.
        switch_packets: packets that the workers received during the trial, one count a traversal.
        tsc_hz: rate of those cycles.
        vnf_busy_cycles: the same, summed over the VNFs.
        approximate: the cycles were derived (softirq time), not counted by the switch.
        generator_limited: the generator limited the rate, or may have: the limiter is the
            generator, or unknown.
        latency_ns: min, p50, p90, p99, p99_9, max, count.
        detail: the generator's whole answer; `limiter` the verdict with its evidence (limiter.py),
            `counters` what the switch and the VNFs counted meanwhile, `others` the shares of the
            measured cores that other programs had, and of their siblings, `sessions` the nice value
            of the session of each process that polls a core, by core, and `unequal_sessions` why
            pollers of one core did not share it evenly.
    """

    round: int
    purpose: Purpose
    intended_pps: float | None
    duration_s: float
    sent: int
    received: int
    lost: int
    unsent: int
    loss_ratio: float
    tx_pps: float
    rx_pps: float
    started: float
    busy_cycles: int | None = None
    waited_cycles: int = 0
    switch_packets: int | None = None
    tsc_hz: float | None = None
    vnf_busy_cycles: int | None = None
    approximate: bool = False
    generator_limited: bool = False
    latency_ns: dict[str, float] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def limiter(self) -> str:
        """What limited the rate: generator, switch, VNF or unknown."""
        return str(self.detail.get("limiter", {}).get("limiter", "unknown"))

    @property
    def cpu_percent(self) -> float | None:
        """Busy cycles as percent of one core over the seconds of sending, or None."""
        if self.busy_cycles is None or not self.tsc_hz or self.duration_s <= 0:
            return None
        return 100.0 * self.busy_cycles / (self.tsc_hz * self.duration_s)

    @property
    def cycles_per_packet(self) -> float | None:
        """Busy cycles of the switch for each packet that the generator got back, or None."""
        if self.busy_cycles is None or self.received <= 0:
            return None
        return self.busy_cycles / self.received

    @property
    def waited_share(self) -> float:
        """Share of the seconds of sending for which the worker was kept from its core."""
        if not self.tsc_hz or self.duration_s <= 0:
            return 0.0
        return self.waited_cycles / (self.tsc_hz * self.duration_s)

    @property
    def stolen_share(self) -> float:
        """Share of the seconds of sending that the hypervisor took from the measured cores."""
        stolen = (self.detail.get("noise") or {}).get("stolen_s") or 0.0
        return min(1.0, stolen / self.duration_s) if self.duration_s > 0 else 0.0

    def _taken(self, what: str) -> float:
        """The largest share of a measured core's time that `others` had, or its `siblings`."""
        cores = (self.detail.get("others") or {}).values()
        return max((shares.get(what, 0.0) for shares in cores), default=0.0)

    @property
    def disturbance(self) -> float:
        """Time taken from the worker as a share of what the trial measures.

        A cost is the busy share: a tenth of a trial spent waiting spoils a busy share of 8 %
        wholly, and one of 100 % by a tenth. A rate, a loss or a latency is of the whole time; for
        them the generator's time off its core counts, too, and what others ran on any measured
        core. A busy sibling of a core slows it while it is busy. Pollers that don't share their
        core evenly disturb all of it.
        """
        if self.unequal_sessions:
            return 1.0
        waited, siblings = self.waited_share + self.stolen_share, self._taken("siblings")
        if self.purpose == "cost":
            busy = (self.cpu_percent or 100.0) / 100.0
            return max(waited / max(busy, 1e-3), siblings)
        health = self.detail.get("generator") or {}
        on_core = health.get("on_core_share")
        away = 0.0 if on_core is None else 1.0 - on_core
        return max(waited, away, self._taken("others"), siblings)

    @property
    def taken_share(self) -> float:
        """The largest share of the time that a measured core was not the measured programs'.

        1 if pollers did not share a core evenly.
        """
        if self.unequal_sessions:
            return 1.0
        on_core = (self.detail.get("generator") or {}).get("on_core_share")
        away = 0.0 if on_core is None else 1.0 - on_core
        return max(self.waited_share, self.stolen_share, away, self._taken("others"))

    @property
    def unequal_sessions(self) -> str:
        """Why pollers that share a core did not share it evenly; empty if they did."""
        return str(self.detail.get("unequal_sessions") or "")

    @property
    def disturbed(self) -> bool:
        """Whether other programs took so much time that what it measures is unreliable."""
        return self.disturbance > DISTURBED


@dataclass(frozen=True)
class Sample:
    """One value of one metric, drawn in one round.

    `point` says where on the load axis it was taken ("" for a search): "50% pdr", "200000 pps".
    `relation` is `>=` or `<` where a search ended at a bound: the value is that bound.
    `turn` is its number among those of its round: those of two cases with one number were taken
    next to each other, and are a pair. `disturbance` is the share of the time that others took.
    """

    metric: str
    point: str
    round: int
    value: float
    generator_limited: bool = False
    relation: Relation = "="
    turn: int = 0
    disturbance: float = 0.0


@dataclass(frozen=True)
class Skip:
    """A requested case that could not be measured here, with the reason."""

    scenario: str
    what: str
    switch: str
    reason: str


@dataclass(frozen=True)
class Fit:
    """The cost function `log C = alpha log pps + beta log length + gamma` of one switch.

    C is in percent of one core, logarithms are natural. `*_se` are standard errors, `cv_error` is
    the median relative error of predictions for points left out of the fit, `residual_s` the
    residual standard deviation of log C, `covariance` that of (alpha, beta, gamma).
    `disturbed` says that other programs took the worker's core while the points were measured.
    """

    switch: str
    placement: Placement
    packet_bytes: int
    alpha: float
    beta: float
    gamma: float
    alpha_se: float
    beta_se: float
    gamma_se: float
    r2: float
    cv_error: float
    residual_s: float
    points: int
    disturbed: bool = False
    covariance: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Campaign:
    """All trials of one invocation, with what is needed to repeat them."""

    id: int
    started: float
    ended: float | None
    status: str
    manifest: dict[str, Any]
