# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.results.statistics import ratio_of_groups, ratio_of_pairs, summarise

values = st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=20)


@given(values)
def test_a_summary_is_in_order(samples: list[float]) -> None:
    found = summarise(samples)
    assert found.minimum <= found.median <= found.maximum
    assert found.count == len(samples)
    if len(samples) < 6:
        assert found.low is None and found.high is None
    else:
        assert found.low is not None and found.high is not None
        assert found.minimum <= found.low <= found.median <= found.high <= found.maximum


def test_no_samples_no_summary() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        samples = np.exp(generator.normal(math.log(100), 0.15, 12)).tolist()
        found = summarise(samples)
        assert found.low is not None and found.high is not None
        covered += found.low <= 100 <= found.high
    assert 0.94 <= covered / 400 <= 0.99


def test_pairs_see_through_a_slow_phase_that_groups_do_not() -> None:
    phases = [1.0, 0.5, 0.8, 0.6, 1.1]
    ours = [12 * phase for phase in phases]
    theirs = [10 * phase * wobble for phase, wobble in zip(phases, [1, 1.01, 0.99, 1, 1.02])]  # noqa: B905
    paired, grouped = ratio_of_pairs(ours, theirs), ratio_of_groups(ours, theirs)
    assert paired.verdict == "higher" and paired.value == pytest.approx(1.2, rel=0.02)
    assert grouped.verdict == "no difference shown"
    assert ratio_of_pairs(theirs, ours).verdict == "lower"


def test_few_samples_conclude_nothing() -> None:
    assert ratio_of_pairs([10, 11], [1, 1]).verdict == "too few samples"
    assert ratio_of_groups([10, 11], [1, 1, 1]).verdict == "too few samples"
    assert ratio_of_groups([10, 10, 10], [1, 1, 1]).verdict == "higher"
    with pytest.raises(ValueError, match="as many"):
        ratio_of_pairs([1, 2], [1])
    with pytest.raises(ValueError, match="positive"):
        ratio_of_groups([0], [1])
