# SPDX-License-Identifier: Apache-2.0
"""Cost by role from a stored campaign whose costs are known."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.model.roles import compare_placements, role_costs
from headrace.report.cost_figures import cycles_by_role
from headrace.report.view import read
from headrace.results import Case, Trial
from headrace.results.store import Store

PER_PACKET, PER_BURST, ROUND, IDLE = 40.0, 64.0, 20.0, 10.0
SECONDS = 0.4


def polled(packets: int, visits: int, burst: int, factor: float) -> dict[str, int]:
    """A poller's counters: `visits` times each packet, in bursts of that many."""
    bursts = max(1, packets * visits // burst)
    cycles = factor * (packets * visits * PER_PACKET + bursts * (PER_BURST + ROUND))
    idle = 4 * bursts if burst == 1 else bursts // 10
    return {"busy_cycles": round(cycles), "idle_cycles": round(IDLE * idle),
            "rounds": bursts + idle, "busy_rounds": bursts, "bursts": bursts,
            "packets": packets * visits}  # fmt: skip


def trial(case: Case, load: float | None, number: int, **more: Any) -> Trial:
    packets = round((load or 2e6) * SECONDS)
    burst = 1 if load is not None and load <= 5e4 else 4 if load is not None else 32
    counters: dict[str, Any] = {"switch": polled(packets, case.traversals, burst, 1.0)}
    each = 1 if case.shape == "chain" else 1 / max(1, case.vnfs)
    for index in range(case.vnfs):
        counters[f"vnf{index}"] = polled(round(packets * each), 1, burst, 0.5)
    return Trial(
        round=number, purpose="overload" if load is None else "cost", intended_pps=load,
        duration_s=SECONDS, sent=packets, received=packets, lost=0, unsent=0, loss_ratio=0.0,
        tx_pps=packets / SECONDS, rx_pps=packets / SECONDS, started=0.0, tsc_hz=2e9,
        busy_cycles=counters["switch"]["busy_cycles"], detail={"counters": counters}, **more
    )  # fmt: skip


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        number = store.begin({})
        for shape, vnfs in (("chain", 2), ("parallel", 2)):
            case = Case("chain-cost", shape, vnfs, "gather", "headrace", "in-process",  # type: ignore[arg-type]
                        "vhost-user", "pass", "process", "100", 50)  # fmt: skip
            case_id = store.case_id(number, case)
            for at, load in enumerate((2e4, 4e4, 5e4, 1e5, 2e5, 4e5, None)):
                store.add_trial(case_id, trial(case, load, at))
        native = Case("native", "chain", 1, "gather", "linux-bridge", "veth", "veth", "bridge",
                      "native", "64", 50)  # fmt: skip
        kernel = Trial(
            round=0, purpose="overload", intended_pps=None, duration_s=1.0, sent=100_000,
            received=100_000, lost=0, unsent=0, loss_ratio=0.0, tx_pps=1e5, rx_pps=1e5,
            started=0.0, busy_cycles=10**9, tsc_hz=2e9, approximate=True,
            detail={"resolution_cycles": 4e7},
        )  # fmt: skip
        store.add_trial(store.case_id(number, native), kernel)
    return path


def test_each_role_has_the_cost_that_it_was_made_with(results: Path) -> None:
    with Store(results) as store:
        costs = role_costs(store, 1)
    of = {(one.case.shape, one.role, one.case.switch): one for one in costs}
    chain = of["chain", "switch", "headrace"]
    # Three traversals in bursts of 4: packets, bursts and rounds.
    known = 3 * (PER_PACKET + (PER_BURST + ROUND) / 4)
    assert chain.at_load["200000 pps"] == pytest.approx(known, rel=0.01)
    assert chain.marginal == pytest.approx(3 * (PER_PACKET + (PER_BURST + ROUND) / 32), rel=0.05)
    vnfs = of["chain", "VNFs", "headrace"]
    assert vnfs.marginal == pytest.approx(2 * 0.5 * (PER_PACKET + 84 / 32), rel=0.05)
    kernel = of["chain", "kernel", "linux-bridge"]
    assert kernel.at_load == {"overload": 10_000.0} and kernel.resolution == 400.0
    assert kernel.marginal is None and "softirq" in kernel.reason


def test_distribute_is_compared_at_n_times_a_chains_load(results: Path) -> None:
    with Store(results) as store:
        found = {one.load: one for one in compare_placements(role_costs(store, 1))}
    assert set(found) == {"20000 pps", "50000 pps", "100000 pps", "200000 pps", "full bursts"}
    full = found["full bursts"]
    # Three traversals gathered; two servers with two each distributed. VNFs do the same work.
    assert full.distribute["switch"] / full.gather["switch"] == pytest.approx(4 / 3, rel=0.05)
    assert full.distribute["VNFs"] == pytest.approx(full.gather["VNFs"], rel=0.05)
    # At 50000 a chain its switches get single packets, with twice that bursts of four.
    assert found["50000 pps"].gather["switch"] == pytest.approx(3 * (40 + 84), rel=0.01)
    assert found["50000 pps"].distribute["switch"] == pytest.approx(4 * (40 + 21), rel=0.01)


def test_the_command_prints_both_tables(results: Path) -> None:
    done = CliRunner().invoke(app, ["model", "roles", "--results", str(results)])
    assert done.exit_code == 0, done.output
    assert "VNFs" in done.output and "all servers together" in done.output
    assert "softirq" in done.output


def test_the_report_draws_both_placements_by_role(results: Path) -> None:
    with Store(results) as store:
        drawn = cycles_by_role(read(store, 1))
    assert drawn is not None and "2 VNFs, distribute" in drawn and "full bursts" in drawn
