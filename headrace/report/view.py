# SPDX-License-Identifier: Apache-2.0
"""A campaign's data, read once, in the forms that the report's sections need."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.model.campaign import CampaignModel, model_of
from headrace.model.roles import Comparison, RoleCost, compare_placements, role_costs
from headrace.model.saturation import Saturation, saturations
from headrace.results import Campaign, Case, Skip, Trial
from headrace.results.frame_sizes import mean_bytes
from headrace.results.store import Store
from headrace.results.summary import RATE_METRICS, RatioRow, Row, ratios_of, rows_of


@dataclass
class View:
    """A campaign's data for the report.

    Attributes:
        campaign: when, how it ended, the manifest.
        rows: medians of all metrics.
        ratios: headrace over ovs-dpdk.
        skips: skipped cases.
        model: the cost functions.
        trials: every trial by case.
        placements: gather and distribute by role.
        roles: what a packet costs each role.
        saturations: predicted and measured rates of switches without time left.
        command_rows: what commands measured, each with the name of its scenario.
        samples: how many there are, with those that are in no row (results/calm.py).
    """

    campaign: Campaign
    rows: list[Row]
    ratios: list[RatioRow]
    skips: list[Skip]
    model: CampaignModel
    trials: dict[Case, list[Trial]] = field(default_factory=dict)
    placements: list[Comparison] = field(default_factory=list)
    roles: list[RoleCost] = field(default_factory=list)
    saturations: list[Saturation] = field(default_factory=list)
    command_rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    samples: int = 0

    def limiters(self, row: Row) -> str:
        """What limited a rate, by the verdicts of its overload trials: `switch 5 of 6`."""
        if row.metric not in RATE_METRICS:
            return ""
        trials = [trial for trial in self.trials.get(row.case, []) if trial.purpose == "overload"]
        counted = Counter(trial.limiter for trial in trials)
        return ", ".join(
            name if times == len(trials) else f"{name} {times} of {len(trials)}"
            for name, times in counted.most_common()
        )

    def select(self, *metrics: str) -> list[Row]:
        """Rows of some metrics; `pdr` stands for `pdr-quick`, too."""
        return [row for row in self.rows if row.kind in metrics]

    def port_to_port(self, *metrics: str) -> list[Row]:
        """Rows of cases without VNFs and with one rule."""
        return [
            row
            for row in self.select(*metrics)
            if row.case.shape == "p2p" and not row.case.prefixes
        ]

    def by_flows(self, *metrics: str) -> list[Row]:
        """Rows of the flow sweep: no VNFs, a rule for each prefix."""
        return [row for row in self.select(*metrics) if row.case.prefixes]

    def by_vnfs(self, *metrics: str) -> list[Row]:
        """Rate rows of VNFs side by side under a mix of sizes."""
        return [
            row
            for row in self.select(*metrics)
            if row.case.shape == "parallel" and not row.case.size.isdigit()
        ]

    def port_ceiling(self, case: Case) -> float | None:
        """What the generator reaches over the case's kind of port, in pps.

        That is its calibration, and at least what came back over such ports in any trial: where
        other programs disturbed the calibration, a rate above it shows that. None if it was not
        calibrated over such ports, or source or sink are in the switch.
        """
        for over in (self.campaign.manifest.get("generator") or {}).get("ports", []):
            if over["kind"] == case.ports and not over["bare"]:
                points = sorted(over["points"], key=lambda point: point["size"])
                sizes = [point["size"] for point in points]
                times = [1 / point["pps"] for point in points]
                calibrated = 1 / float(np.interp(mean_bytes(case.size), sizes, times))
                reached = [
                    trial.rx_pps
                    for other, trials in self.trials.items()
                    if (other.ports, other.size) == (case.ports, case.size)
                    for trial in trials
                ]
                return max([calibrated, *reached])
        return None

    @property
    def subjects(self) -> list[str]:
        """All subjects in the order of first measuring."""
        return list(dict.fromkeys(case.subject for case in self.trials))

    @property
    def cost_sizes(self) -> list[int]:
        """Frame sizes for which the cost functions have points."""
        return sorted({key[2] for key in self.model.points})


def read(store: Store, campaign: int | None = None) -> View:
    """Reads a campaign, the newest if none is named.

    Raises:
        StoreError: there is no such campaign.
    """
    found = store.campaign(campaign)
    trials: dict[Case, list[Trial]] = defaultdict(list)
    for case_id, case in store.cases(found.id).items():
        trials[case].extend(store.trials(case_id))
    roles = role_costs(store, found.id)
    return View(
        found,
        rows_of(store, found.id),
        ratios_of(store, found.id),
        store.skips(found.id),
        model_of(store, found.id),
        dict(trials),
        compare_placements(roles),
        roles,
        saturations(store, found.id),
        store.command_rows(found.id),
        sum(len(store.samples(case_id)) for case_id in store.cases(found.id)),
    )
