# SPDX-License-Identifier: Apache-2.0
"""Does the reading of Table I that the product uses reproduce what Section IV-B says?"""

import math

import pytest

from headrace.model.cost import Coefficients, advise, select
from headrace.results import published

LENGTH = 5


def table(switch: str, placement: str, size: int = 1500) -> Coefficients:
    found = select(published.cost_functions(), switch, placement, size)
    assert found is not None and found.packet_bytes == size
    return found


SAID = [
    ("ovs-kernel", 10e3, "distribute"),
    ("ovs-kernel", 50e3, "distribute"),
    ("ovs-kernel", 100e3, "gather"),
    ("ovs-kernel", 500e3, "gather"),
    ("ovs-kernel", 1.5e6, "gather"),
    ("ovs-dpdk", 10e3, "gather"),
    ("ovs-dpdk", 50e3, "gather"),
    ("ovs-dpdk", 1e6, "distribute"),
    ("ovs-dpdk", 6e6, "distribute"),
]
"""What Section IV-B says of its figures, which are of n = 5."""


@pytest.mark.parametrize(("switch", "pps", "cheaper"), SAID)
def test_our_reading_says_what_the_paper_says(switch: str, pps: float, cheaper: str) -> None:
    advice = advise(table(switch, "gather"), table(switch, "distribute"), pps, LENGTH)
    assert advice.placement == cheaper


def contradicted(length: int) -> set[tuple[str, float]]:
    """The statements that do not hold for chains of this length."""
    return {
        (switch, pps)
        for switch, pps, cheaper in SAID
        if advise(table(switch, "gather"), table(switch, "distribute"), pps, length).placement
        != cheaper
    }


@pytest.mark.parametrize("length", range(2, 31))
def test_all_statements_hold_for_chains_of_4_to_6_only(length: int) -> None:
    """Crossovers move with n: for short chains kernel OVS favours distribute longer, and so on."""
    expected: set[tuple[str, float]] = set()
    if length < 4:
        expected = {("ovs-kernel", 100e3)}
    if length > 6:
        expected = {("ovs-kernel", 50e3)}
    if length > 24:
        expected |= {("ovs-kernel", 10e3)}
    if length > 29:
        expected |= {("ovs-dpdk", 50e3)}
    assert contradicted(length) == expected


def printed(row: Coefficients, chain_pps: float, length: int) -> float:
    """The formula as the paper prints it: alpha with the length, beta with the packets."""
    entering = chain_pps * (length if row.placement == "distribute" else 1)
    exponent = row.alpha * math.log(length) + row.beta * math.log(entering) + row.gamma
    return length * math.exp(exponent)


def test_the_printed_reading_contradicts_the_text() -> None:
    """With the printed formula kernel OVS would never favour gather at 100 kpps and above."""
    for pps in (100e3, 500e3, 1.5e6):
        gather = printed(table("ovs-kernel", "gather"), pps, LENGTH)
        distribute = printed(table("ovs-kernel", "distribute"), pps, LENGTH)
        assert distribute < gather


def test_the_nearest_size_is_chosen() -> None:
    row = select(published.cost_functions(), "ovs-dpdk", "gather", 1400)
    assert row is not None and row.packet_bytes == 1500
    assert select(published.cost_functions(), "vpp", "gather", 64) is None
