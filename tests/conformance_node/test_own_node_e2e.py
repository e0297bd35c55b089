# SPDX-License-Identifier: Apache-2.0
"""The tests against a node of their own, with real packets: a part always, all in `full`."""

import os
from collections import Counter

import pytest

from headrace.conformance import registry, runner
from headrace.conformance.case import Result, Verdict
from headrace.conformance.own import OwnBed
from headrace.conformance.target import Settings
from headrace.machine.programs import ProgramMissing, find_program
from tests.support.janitor import removed_at_the_latest

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: raw sockets, a node"),
]


async def results(only: str, settings: Settings) -> list[Result]:
    try:
        find_program("headrace-switch")
    except ProgramMissing as missing:
        pytest.skip(str(missing))
    bed = OwnBed(settings, noted=removed_at_the_latest)
    return [each async for each in runner.run(bed, registry.chosen(only))]


def reasons(found: list[Result], verdict: Verdict) -> dict[int, str]:
    return {each.case.number: each.reason for each in found if each.verdict == verdict}


@pytest.mark.timeout(180)
async def test_interfaces_and_some_functions_of_our_node() -> None:
    found = await results("1-11,18,19,21", Settings())
    assert reasons(found, Verdict.FAIL) == {}
    assert reasons(found, Verdict.NOT_APPLICABLE) == {}


@pytest.mark.full
@pytest.mark.timeout(900)
async def test_our_node_passes_what_is_applicable() -> None:
    found = await results("", Settings(rules=300, graphs=20, loads=(0.05, 0.25, 1.0)))
    assert reasons(found, Verdict.FAIL) == {}
    assert Counter(each.verdict for each in found)[Verdict.PASS] >= 25
    assert set(reasons(found, Verdict.NOT_APPLICABLE)) <= {15}
