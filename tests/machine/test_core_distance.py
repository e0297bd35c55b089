# SPDX-License-Identifier: Apache-2.0
"""How far apart two cores are: measured, and windows of one state told from the others."""

import dataclasses
import os

import pytest

from headrace.machine import core_distance
from headrace.machine.core_distance import CoreDistances, Transfer
from headrace.model.mechanistic.distance import is_same, usual
from headrace.model.mechanistic.fitting import fit_all, in_one_state, points_of
from headrace.model.mechanistic.windows import Key, Window

CORES = sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_a_line_takes_some_time_there_and_back() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES[:1])
    try:
        with Transfer(CORES[1]) as transfer:
            found = [transfer.round_trip_ns() for _ in range(20)]
    finally:
        os.sched_setaffinity(0, before)
    known = [one for one in found if one is not None]
    if not known:
        pytest.skip("other programs had one of the cores all the time")
    # Nanoseconds, not microseconds, and more than a cache of one's own takes.
    assert 50 < min(known) < 100_000


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_one_that_has_ended_measures_nothing() -> None:
    with Transfer(CORES[1]) as transfer:
        transfer._process.kill()
        transfer._process.wait()
        assert transfer.round_trip_ns() is None


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_distances_are_measured_again_when_they_are_old(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    distances = CoreDistances()
    asked: list[float | None] = []
    original = Transfer.round_trip_ns

    def counted(transfer: Transfer) -> float | None:
        asked.append(original(transfer))
        return asked[-1]

    monkeypatch.setattr(Transfer, "round_trip_ns", counted)
    try:
        assert distances.between(CORES[0], CORES[0]) is None and not asked
        for _ in range(20):
            found = distances.between(CORES[0], CORES[1])
            if found is not None:
                break
        else:
            pytest.skip("other programs had one of the cores all the time")
        tried = len(asked)
        assert found == asked[-1]
        assert distances.between(CORES[0], CORES[1]) == found and len(asked) == tried
        # One whose process has ended is replaced, once the last figure is old.
        monkeypatch.setattr(core_distance, "FRESH_S", 0.0)
        transfer = distances._transfers[CORES[1]]
        transfer._process.kill()
        transfer._process.wait()
        distances.between(CORES[0], CORES[1])
        assert len(asked) == tried + 1 and not distances._transfers[CORES[1]].ended
        assert distances.between(CORES[0], max(CORES) + 1) is None  # there is no such core
        assert os.sched_getaffinity(0) == before
    finally:
        distances.close()


def test_the_usual_distance_is_that_of_most() -> None:
    assert usual([]) is None and usual([None]) is None
    assert usual([300.0, 310.0, 600.0, None, 305.0]) in (300.0, 305.0, 310.0)
    assert is_same(300, 350) and not is_same(300, 400)


def window(group: str, vnfs: int, rounds: float, transfer_ns: float | None) -> Window:
    terms = {"packets": 1e6, "busy_rounds": 1e5}
    return Window(Key("s", "switch"), group, vnfs, 64.0, 1e6, 1e6, 1e6, 1.0, 2e9, 1.9e9, 1e8,
                  rounds - 1e5, "generator", False, terms, transfer_ns=transfer_ns)  # fmt: skip


def test_points_are_of_one_state_and_of_the_most_rounds() -> None:
    near = [window("a", 1, 5e6, 300.0), window("a", 1, 4e6, 310.0), window("b", 1, 4e6, 305.0)]
    far = [window("a", 1, 9e6, 600.0), window("b", 1, 9e6, None)]
    alone = [window("c", 0, 4e6, None), window("c", 0, 5e6, None)]
    kept, states = in_one_state([*near, *far, *alone])
    assert kept == [*near, *alone] and states == {"s": 300.0}
    assert points_of(kept) == [near[0], near[2], alone[1]]
    # Where it was not measured, all count.
    unknown = [dataclasses.replace(one, transfer_ns=None) for one in (*near, *far)]
    assert in_one_state(unknown) == (unknown, {"s": None})


def test_the_roles_of_one_switch_are_of_one_state() -> None:
    """The VNF's own majority is another state than that of all windows together."""
    switch = [window("a", 1, 5e6, 340.0 + number) for number in range(9)]
    key = Key("s", "VNF", "pass")
    vnf = [dataclasses.replace(window("a", 1, 5e6, 340.0), key=key)]
    vnf += [dataclasses.replace(window("a", 1, 5e6, 660.0 + n), key=key) for n in range(4)]
    other = [dataclasses.replace(window("a", 1, 5e6, 660.0), key=Key("t/x", "switch"))]
    kept, states = in_one_state([*switch, *vnf, *other])
    assert kept == [*switch, vnf[0], *other]
    assert states["t"] == 660.0 and states["s"] is not None and 340 <= states["s"] < 350
    alone = fit_all([*switch, *vnf[1:]])
    assert "no window with the cores 34" in alone.failures["s VNF pass"]
