# SPDX-License-Identifier: Apache-2.0
"""`headrace bench predictions`: which graphs, and what becomes of a prediction and its trials."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.bench import predictions
from headrace.bench.device import TrialRequest
from headrace.bench.kept_predictions import Kept
from headrace.bench.predictions import (
    another_state,
    judge,
    random_cases,
    summary,
    trials_in_state,
)
from headrace.bench.subject import Subject
from headrace.results import Case, Trial

SUBJECT = Subject.model_validate(
    {"switch": "headrace", "ports": "in-process", "vnf_ports": "vhost-user"}
)


def trial(pps: float, limiter: str = "switch") -> Trial:
    return Trial(
        round=0, purpose="overload", intended_pps=None, duration_s=0.3, sent=1, received=1, lost=0,
        unsent=0, loss_ratio=0, tx_pps=pps, rx_pps=pps, started=0.0,
        detail={"limiter": {"limiter": limiter}},
    )  # fmt: skip


def told(value: float) -> dict[str, Any]:
    bounds = {"value": value, "low": 0.9 * value, "high": 1.1 * value}
    switch = {"role": "switch", "cycles": {"value": 200.0}, "parts": {"packets": 50, "octets": 10}}
    prediction = {"saturation_pps": bounds, "limiter": ["switch"], "roles": [switch]}
    return {"predicted": prediction, "reason": ""}


def case() -> Case:
    return random_cases(1, 1, SUBJECT)[0]


def test_the_same_seed_gives_the_same_different_graphs() -> None:
    found = random_cases(3, 20, SUBJECT)
    assert found == random_cases(3, 20, SUBJECT) != random_cases(4, 20, SUBJECT)
    assert len({(one.shape, one.vnfs, one.size) for one in found}) == 20
    assert {one.shape for one in found} == {"chain", "parallel"}
    assert all(64 <= int(one.size) <= 1518 and 1 <= one.vnfs <= 4 for one in found)


def test_the_median_of_the_rates_counts_that_switch_or_vnfs_limited() -> None:
    trials = [trial(1e6), trial(2e6), trial(9e6, "generator"), trial(1.1e6)]
    row = judge(case(), told(1.21e6), trials)
    assert row.value is not None and abs(row.value - 10) < 1e-6
    assert row.note is not None and row.note.endswith("outside") is False
    far = judge(case(), told(3e6), trials)
    assert far.note is not None and far.note.endswith("outside")


def test_what_is_refused_under_overload_has_cost_its_entry() -> None:
    evidence = [{"role": "generator"}, {"role": "switch", "refused_share": 0.5}]
    detail = {"limiter": {"limiter": "switch", "evidence": evidence}}
    # Half is refused: 60 cycles more for each packet that comes through, of 200.
    wasted = replace(trial(1e6 * 200 / 260), detail=detail)
    row = judge(case(), told(1e6), [wasted])
    assert row.value is not None and row.value < 1e-6
    by_vnf = {"limiter": {"limiter": "VNF", "evidence": evidence}}
    row = judge(case(), told(1e6), [replace(trial(1e6), detail=by_vnf)])
    assert row.value is not None and row.value < 1e-6


def test_of_a_shared_core_refusals_count_where_the_switch_is_predicted_to_be_the_limit() -> None:
    evidence = [{"role": "switch", "refused_share": 0.5}]
    detail = {"limiter": {"limiter": "VNF", "evidence": evidence}}
    measured = replace(trial(1e6 * 200 / 260), detail=detail)
    prediction = told(1e6)
    prediction["predicted"]["roles"] += [
        {"role": name, "core": "0", "cycles": {"value": 1.0}} for name in ("v0", "v1")
    ]
    row = judge(case(), prediction, [measured])
    assert row.value is not None and row.value < 1e-6
    prediction["predicted"]["limiter"] = ["v0", "v1"]
    row = judge(case(), prediction, [measured])
    assert row.value == pytest.approx(30)


class CountingDevice:
    """A device whose trials are numbered by their rate."""

    def __init__(self, case: Case) -> None:
        self.case, self.ceiling_pps, self.ran = case, 1e9, 0

    async def trial(self, request: TrialRequest) -> Trial:
        self.ran += 1
        return trial(float(self.ran))


async def tried(monkeypatch: pytest.MonkeyPatch, *seen: float | None) -> tuple[list[float], str]:
    """Rates of the trials that count if the cores are so far apart, one look after another."""
    monkeypatch.setattr(predictions, "PAUSE_S", 0.0)
    left = list(seen)

    async def distance() -> float | None:
        return left.pop(0) if len(left) > 1 else left[0]

    trials, other = await trials_in_state(CountingDevice(case()), distance, 300.0, 2, 0.1)
    return [one.rx_pps for one in trials], other


async def test_only_trials_in_the_models_state_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await tried(monkeypatch, 310.0) == ([1, 2], "")
    assert await tried(monkeypatch, None) == ([1, 2], "")
    # The second look of the first trial finds another state, which then lasts for a while.
    assert await tried(monkeypatch, 310, 600, 600, 600, 310) == ([2, 3], "")
    monkeypatch.setattr(predictions, "PATIENCE_S", 0.0)
    rates, other = await tried(monkeypatch, 310, 310, 600)
    assert rates == [1] and "600 ns apart" in other
    flips = [310.0, 600.0] * 6
    rates, other = await tried(monkeypatch, *flips, 310.0)
    assert not rates and "600 ns apart" in other


def test_graphs_of_another_state_of_the_machine_are_not_judged() -> None:
    assert not another_state(300.0, [310.0, None]) and not another_state(None, [600.0, 600.0])
    why = another_state(300.0, [310.0, 600.0])
    assert "600 ns apart, 300 when" in why
    row = judge(case(), told(1e6), [trial(1e6)], why)
    assert row.value is None and row.skipped == why


def test_graphs_with_a_shared_core_are_told_apart() -> None:
    prediction = told(1.5e6)
    vnfs = [{"role": name, "core": "0", "cycles": {"value": 1.0}} for name in ("v0", "v1")]
    prediction["predicted"]["roles"] += vnfs
    shared, own = judge(case(), prediction, [trial(1e6)]), judge(case(), told(1.1e6), [trial(1e6)])
    rows = {one.name: one.value for one in summary([shared, own])}
    assert rows["all graphs: median error"] == pytest.approx(30)
    assert rows["graphs without a shared core: median error"] == pytest.approx(10)
    assert summary([shared])[-1].value is None


def test_judged_graphs_are_kept_for_the_same_model_and_settings_only(tmp_path: Path) -> None:
    model, file = tmp_path / "model.json", tmp_path / "kept.json"
    model.write_text("{}")
    Kept(file, model, ["headrace", 1]).add("a", judge(case(), told(1.1e6), [trial(1e6)]))
    again = Kept(file, model, ["headrace", 1])
    found = again.row("a")
    assert found is not None and found.value is not None and abs(found.value - 10) < 1e-6
    assert again.row("b") is None
    with pytest.raises(ValueError, match="another model"):
        Kept(file, model, ["headrace", 2])
    model.write_text("{ }")
    with pytest.raises(ValueError, match="another model"):
        Kept(file, model, ["headrace", 1])
    file.write_text("[]")
    with pytest.raises(ValueError, match="no file of"):
        Kept(file, model, ["headrace", 1])


def test_a_row_tells_predicted_and_counted_cycles_and_the_summary_the_worst() -> None:
    counted = {"switch": {"busy_cycles": 250}, "vnf0": {"busy_cycles": 70}, "generator": {}}
    detail = {"limiter": {"limiter": "switch"}, "counters": counted}
    good = judge(case(), told(1e6), [trial(1e6)])
    bad = judge(case(), told(1.25e6), [replace(trial(1e6), detail=detail)])
    assert bad.note is not None and bad.note.startswith("switch 200, counted 250 cycles; predicted")
    worst = summary([good, bad])[1]
    assert worst.note is not None and "counted 250" in worst.note


def test_without_a_prediction_or_a_limit_there_is_no_error() -> None:
    none = judge(case(), {"predicted": None, "reason": "no VNF"}, [trial(1e6)])
    assert none.value is None and "no VNF" in (none.skipped or "")
    other = judge(case(), told(1e6), [trial(1e6, "generator")])
    assert other.value is None and "generator" in (other.skipped or "")
    (row,) = summary([none, other])
    assert row.met is False


def test_the_summary_counts_intervals_that_hold() -> None:
    rows = [judge(case(), told(v), [trial(1e6)]) for v in (1e6, 1.05e6, 2e6)]
    median, worst, held, _ = summary(rows)
    assert median.value is not None and abs(median.value - 5) < 1e-6 and median.met
    assert worst.met is False and held.value == 2
