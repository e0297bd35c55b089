# SPDX-License-Identifier: Apache-2.0
"""Saturation of a campaign foretold from fixed loads of known cost, beside what was measured."""

from pathlib import Path
from typing import Any

import pytest

from headrace.model.saturation import saturations
from headrace.report.cost_figures import predicted_and_measured
from headrace.report.view import read
from headrace.results import Case, Trial
from headrace.results.store import Store

HZ = 2e9
PER_PACKET, PER_BYTE, PER_BURST, ROUND, IDLE = 40.0, 0.05, 60.0, 100.0, 80.0
ROUND_PACKETS = 128


def case(size: str, scenario: str) -> Case:
    return Case(scenario, "p2p", 0, "none", "headrace", "in-process", "", "", "", size, 1000)


def fixed(size: int, load: float, burst: int, bursts_a_round: int = 1) -> Trial:
    packets = int(0.4 * load)
    bursts = packets // burst
    busy_rounds = bursts // bursts_a_round
    busy = packets * (PER_PACKET + PER_BYTE * size) + bursts * PER_BURST + busy_rounds * ROUND
    idle_rounds = int((0.4 * HZ - busy) / IDLE)
    counters = {"busy_cycles": int(busy), "idle_cycles": int(idle_rounds * IDLE), "bursts": bursts,
                "rounds": busy_rounds + idle_rounds, "busy_rounds": busy_rounds,
                "packets": packets}  # fmt: skip
    return _trial("cost", load, packets, {"switch": counters})


def _trial(purpose: Any, load: float | None, packets: int, counters: dict[str, Any]) -> Trial:
    limiter = {"limiter": "switch" if load is None else "generator"}
    return Trial(
        round=0, purpose=purpose, intended_pps=load, duration_s=0.4, sent=packets,
        received=packets, lost=0, unsent=0, loss_ratio=0.0, tx_pps=packets / 0.4,
        rx_pps=packets / 0.4, started=0.0, tsc_hz=HZ, busy_cycles=1,
        detail={"counters": counters, "limiter": limiter},
    )  # fmt: skip


def capacity(size: int) -> float:
    cycles = PER_PACKET + PER_BYTE * size + PER_BURST / 32 + ROUND / ROUND_PACKETS
    return HZ / cycles


def test_the_rate_of_a_known_switch_is_foretold_also_for_sizes_not_in_the_fit(
    tmp_path: Path,
) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        for scenario, burst, at_once in (("singly", 1, 1), ("bursts", 32, 1), ("more", 32, 4)):
            for size in (64, 1518):
                case_id = store.case_id(number, case(str(size), scenario))
                for load in (5e5, 2e6, 6e6):
                    store.add_trial(case_id, fixed(size, load, burst, at_once))
        for size, wrong in ((64, 1.0), (512, 1.0), (1518, 0.8)):
            case_id = store.case_id(number, case(str(size), "overload"))
            packets = int(0.4 * capacity(size) * wrong)
            store.add_trial(case_id, _trial("overload", None, packets, {}))
        found = {one.case.size: one for one in saturations(store, number)}
        assert set(found) == {"64", "512", "1518"}
        for one in found.values():
            assert one.predicted == pytest.approx(capacity(int(one.case.size)), rel=0.03)
            assert one.of_the_switch
        assert found["512"].held_out and not found["64"].held_out
        assert abs(found["512"].error) < 0.03 and found["1518"].error == pytest.approx(
            0.25, abs=0.05
        )
        drawn = predicted_and_measured(read(store, number))
    assert drawn is not None and "p2p 1518B +2" in drawn
