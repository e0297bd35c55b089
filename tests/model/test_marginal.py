# SPDX-License-Identifier: Apache-2.0
"""The marginal cost of a poller whose cost is known, and what a busy share would say instead."""

import dataclasses

import pytest

from headrace.model.least_squares import FitError
from headrace.model.marginal import (
    Observation,
    fit_marginal,
    fit_polls,
    fit_power_law,
    least_disturbed,
)

HZ = 2e9
ROUND, BUSY_ROUND, BURST_COST, PACKET, BYTE = 400.0, 500.0, 150.0, 30.0, 0.05


CHANGE = 40.0


def window(
    pps: float, burst: int, size: int, factor: float = 1.0, changes: float = 0.0
) -> Observation:
    """A second of a poller with these costs, each burst in a round of its own below 4 a round."""
    bursts = pps / burst
    busy_rounds = bursts / (2 if burst == 32 else 1)
    packets = pps * (PACKET + BYTE * size + CHANGE * changes)
    busy = factor * (busy_rounds * BUSY_ROUND + bursts * BURST_COST + packets)
    idle = HZ - busy
    assert idle > 0
    return Observation(
        group=f"{size} {burst} {pps:g} {changes:g}",
        busy_cycles=busy,
        idle_cycles=idle,
        rounds=busy_rounds + idle / ROUND,
        busy_rounds=busy_rounds,
        bursts=bursts,
        packets=pps,
        octets=pps * size,
        changes=pps * changes,
    )


POINTS = [
    window(pps, burst, size)
    for pps in (0.2e6, 0.5e6, 1.5e6)
    for burst in (1, 4, 32)
    for size in (64, 1518)
]


def test_a_mix_of_sizes_costs_more_than_their_mean() -> None:
    """Another mix, in no point of the fit, is predicted from the cost of a change of size."""
    mixed = [window(pps, 32, 354, changes=0.54) for pps in (0.2e6, 0.5e6, 1.5e6)]
    known = HZ / (PACKET + BYTE * 544 + CHANGE * 0.5 + BURST_COST / 32 + BUSY_ROUND / 128)
    without, cost = fit_marginal(POINTS), fit_marginal([*POINTS, *mixed])
    assert without.per_change == 0.0
    assert cost.per_change == pytest.approx(CHANGE, rel=0.05)
    found = cost.saturation_pps(544, HZ, rounds=1 / 128, changes=0.5)
    assert found == pytest.approx(known, rel=0.02)
    assert without.saturation_pps(544, HZ, rounds=1 / 128) > 1.2 * known


def test_known_costs_are_found_and_saturation_is_predicted() -> None:
    cost = fit_marginal(POINTS)
    assert cost.round_cycles == pytest.approx(ROUND)
    assert cost.per_packet == pytest.approx(PACKET, rel=0.01)
    assert cost.per_byte == pytest.approx(BYTE, rel=0.01)
    assert cost.per_burst + cost.per_round == pytest.approx(BURST_COST + BUSY_ROUND, rel=0.01)
    assert cost.held_out < 0.01 and cost.points == len(POINTS)
    # 128 packets a round, in four full bursts: far from every point of the fit.
    known = HZ / (PACKET + BYTE * 512 + BURST_COST / 32 + BUSY_ROUND / 128)
    assert cost.saturation_pps(512, HZ, rounds=1 / 128) == pytest.approx(known, rel=0.02)


def test_busy_is_not_capacity_used() -> None:
    """A round that brings one packet is busy as a whole; the packet costs a fraction of it."""
    single = window(1.5e6, 1, 64)
    used = fit_marginal(POINTS).capacity_used(1.5e6, 64, HZ)
    assert single.busy_share > 0.4 and used < 0.05


def test_a_slow_phase_does_not_move_the_fit() -> None:
    slow = [dataclasses.replace(one, busy_cycles=1.6 * one.busy_cycles) for one in POINTS]
    cost = fit_marginal([*slow, *POINTS, *slow])
    assert cost.per_packet == pytest.approx(PACKET, rel=0.01) and cost.points == len(POINTS)
    assert least_disturbed([slow[0], POINTS[0], slow[0]]) == [POINTS[0]]


def test_repeats_of_a_load_are_left_out_together() -> None:
    """One load that fits nothing else: were its repeat in the fit, its error would be hidden."""
    odd = dataclasses.replace(POINTS[0], busy_cycles=3 * POINTS[0].busy_cycles)
    clean = fit_marginal(POINTS[1:])
    assert fit_marginal([odd, odd, *POINTS[1:]]).held_out > clean.held_out


def test_what_can_not_be_told_apart_is_refused() -> None:
    with pytest.raises(FitError, match="vary the burst size"):
        fit_marginal([window(1e5 * n, 4, 64) for n in range(1, 9)])
    with pytest.raises(FitError, match="at least"):
        fit_marginal(POINTS[:3])
    with pytest.raises(FitError, match="no idle rounds"):
        fit_marginal([dataclasses.replace(one, rounds=one.busy_rounds) for one in POINTS])
    with pytest.raises(FitError, match="is no point"):
        fit_marginal([dataclasses.replace(one, packets=0) for one in POINTS])


def test_a_power_of_the_rate_does_not_hold_over_burst_sizes() -> None:
    law = fit_power_law(POINTS, HZ)
    assert law.held_out > 10 * max(0.01, fit_marginal(POINTS).held_out)
    with pytest.raises(FitError, match="at least 4"):
        fit_power_law(POINTS[:3], HZ)


def test_polls_are_told_from_the_rest_of_a_round() -> None:
    polls = fit_polls([(2, 120.0), (2, 122.0), (8, 240.0), (8, 242.0)])
    assert polls.poll == pytest.approx(20) and polls.fixed == pytest.approx(81)
    with pytest.raises(FitError, match="different numbers of ports"):
        fit_polls([(2, 1.0), (2, 2.0)])
