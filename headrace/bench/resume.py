# SPDX-License-Identifier: Apache-2.0
"""Continues a campaign that was interrupted, or repeats one, from what is stored of it.

The manifest holds the scenarios, the seed and the budget. The samples so far say what is still
missing, and the overload trials and rates what later steps of a case start from.
"""

from typing import Any

from pydantic import ValidationError

from headrace.bench.campaign import Campaign
from headrace.bench.errors import ScenarioError
from headrace.bench.measurements.registry import ExtraKind
from headrace.bench.scenario import Scenario
from headrace.bench.steps import CaseState, StepKind
from headrace.results import Sample
from headrace.results.store import Store
from headrace.results.summary import kind_of

BY_METRIC: dict[str, StepKind] = {
    "ndr": "search",
    "pdr": "search",
    "mrr": "overload",
    "burst_frames": "back_to_back",
    "buffer_time": "back_to_back",
    "recovery_time": "recovery",
}


def scenarios_of(manifest: dict[str, Any]) -> list[Scenario]:
    """The scenarios of a stored campaign as they were.

    Raises:
        ScenarioError: the manifest has none that this version reads.
    """
    stored = manifest.get("scenarios")
    if not stored:
        raise ScenarioError("the campaign's manifest has no scenarios: it was imported")
    try:
        return [Scenario.model_validate(one) for one in stored]
    except ValidationError as error:
        raise ScenarioError(f"the campaign is of another version: {error}") from error


def step_of(sample: Sample) -> StepKind:
    """The step that drew a sample."""
    if sample.metric == "outage_time":
        kind: ExtraKind = "reset" if sample.point.startswith("reset") else "reconfiguration"
        return kind
    if " soak " in sample.point:
        return "soak"
    if sample.point.endswith("overload"):
        return "loss_curve" if sample.metric == "loss_ratio" else "overload"
    found = BY_METRIC.get(kind_of(sample.metric))
    if found is not None:
        return found
    return "latency" if sample.point.endswith("pdr") else "cost"


def restore(campaign: Campaign, store: Store, number: int) -> int:
    """Gives a campaign what is stored of campaign `number`; returns its next round."""
    last = -1
    for case_id, case in store.cases(number).items():
        samples = store.samples(case_id)
        state = CaseState()
        for trial in store.trials(case_id):
            if trial.purpose == "overload":
                state.overloads.append(trial.rx_pps)
                state.overload_limited = trial.generator_limited
        for sample in samples:
            last = max(last, sample.round)
            if kind_of(sample.metric) == "pdr" and sample.relation != "<":
                state.pdr_pps = sample.value
        campaign.restore_case(case, state, [(step_of(sample), sample) for sample in samples])
    return last + 1
