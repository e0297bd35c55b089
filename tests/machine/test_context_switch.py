# SPDX-License-Identifier: Apache-2.0
"""What a yield costs that lets another process run."""

import os

import pytest

from headrace.machine.context_switch import context_switch_ns, of_counts


def test_it_is_the_time_of_a_yield_less_that_of_the_loop() -> None:
    # 100,000 yields of both in 50 ms are 500 ns each, of which the loop takes 50.
    assert of_counts([(4e4, 4e4, 40.0), (6e4, 6e4, 60.0)], 0.05) == pytest.approx(450)


def test_yields_that_change_nothing_are_no_measurement() -> None:
    assert of_counts([(4e4, 100.0, 40.0), (6e4, 100.0, 60.0)], 0.05) is None
    assert of_counts([(0.0, 0.0, 40.0), (0.0, 0.0, 60.0)], 0.05) is None


def test_it_is_measured_on_a_core_and_none_on_one_that_is_not_there() -> None:
    core = max(os.sched_getaffinity(0))
    for _ in range(5):
        found = context_switch_ns(core, 0.02)
        if found is not None:
            break
    else:
        pytest.skip("other programs had the core all the time, or yields change nothing here")
    assert found > 0
    assert context_switch_ns(1 << 15, 0.02) is None
