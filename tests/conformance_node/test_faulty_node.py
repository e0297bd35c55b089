# SPDX-License-Identifier: Apache-2.0
"""The tests judge: each of 26 faults is caught by its test, and by no other."""

import pytest

from headrace.conformance import registry, runner
from headrace.conformance.case import Verdict
from tests.conformance_node.bed import FaultyBed
from tests.conformance_node.faults import FAULTS


async def failed(fault: int | None) -> dict[int, str]:
    """The tests that fail on the node with a fault, with their reasons."""
    found = {}
    async for result in runner.run(FaultyBed(fault), registry.chosen("")):
        assert result.verdict != Verdict.NOT_APPLICABLE, (result.case.number, result.reason)
        if result.verdict == Verdict.FAIL:
            found[result.case.number] = result.reason
    return found


def test_there_is_a_fault_for_each_test() -> None:
    assert list(registry.CASES) == list(FAULTS) == list(range(1, 27))


async def test_a_node_without_a_fault_passes_all_tests() -> None:
    assert await failed(None) == {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda number: f"fault{number}")
async def test_a_fault_is_caught_by_its_test_and_by_no_other(fault: int) -> None:
    found = await failed(fault)
    assert list(found) == [fault], f"{FAULTS[fault]}: {found}"
