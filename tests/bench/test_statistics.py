# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.results import Sample
from headrace.results.calm import calm, rounds_of
from headrace.results.censored import limited_median, relation_of_median
from headrace.results.statistics import (
    Ratio,
    in_turn,
    paired,
    proven,
    ratio_of_groups,
    ratio_of_pairs,
    ratio_of_rounds,
    student_interval,
    summarise,
)

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
    assert grouped.verdict == "not determined"
    assert ratio_of_pairs(theirs, ours).verdict == "lower"


def test_few_samples_conclude_nothing() -> None:
    assert ratio_of_pairs([10, 11], [1, 1]).verdict == "not determined"
    assert ratio_of_groups([10, 11], [1, 1, 1]).verdict == "not determined"
    assert ratio_of_groups([10, 10, 10], [1, 1, 1]).verdict == "higher"
    with pytest.raises(ValueError, match="as many"):
        ratio_of_pairs([1, 2], [1])
    with pytest.raises(ValueError, match="positive"):
        ratio_of_groups([0], [1])


def test_a_ratio_and_its_interval_are_of_one_estimator() -> None:
    """The geometric mean is in the middle of its interval, as factors; a median was not."""
    ours, theirs = [10.0, 10.0, 10.0, 10.0, 40.0], [10.0] * 5
    found = ratio_of_pairs(ours, theirs)
    assert found.low is not None and found.high is not None
    assert found.value == pytest.approx(4 ** (1 / 5))
    assert found.value**2 == pytest.approx(found.low * found.high)
    groups = ratio_of_groups(ours, [9.0, 10.0, 11.0])
    assert groups.low is not None and groups.high is not None
    assert groups.value**2 == pytest.approx(groups.low * groups.high)


def test_the_interval_of_a_ratio_covers_it_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(1000):
        pairs = np.exp(generator.normal(math.log(1.3), 0.1, 5))
        found = ratio_of_pairs(pairs.tolist(), [1.0] * 5)
        assert found.low is not None and found.high is not None
        covered += found.low <= 1.3 <= found.high
    assert 0.93 <= covered / 1000 <= 0.97


def test_equal_values_need_no_variance() -> None:
    for found in (ratio_of_pairs([2.0] * 4, [1.0] * 4), ratio_of_groups([2.0] * 3, [1.0] * 3)):
        assert found.value == found.low == found.high == pytest.approx(2)
        assert found.verdict == "higher" and found.p == 0.0
    assert ratio_of_pairs([2.0] * 4, [2.0] * 4).verdict == "same"
    assert student_interval([7.0, 7.0]) == (7.0, 7.0)


def test_the_same_is_said_only_of_narrow_intervals() -> None:
    assert Ratio(1.0, 0.96, 1.04, 5, "").verdict == "same"
    assert Ratio(1.0, 0.9, 1.1, 5, "").verdict == "not determined"
    assert Ratio(1.0, 0.9, 1.1, 5, "").width == pytest.approx(0.1055, abs=1e-3)


def test_many_rows_without_a_difference_show_hardly_any() -> None:
    """Single tests call 5 % different; the adjusted ones hardly ever a single row."""
    generator = np.random.default_rng(9)
    alone = adjusted = 0
    for _ in range(50):
        found = [
            ratio_of_pairs(*np.exp(generator.normal(0, 0.1, (2, 6))).tolist()) for _ in range(60)
        ]
        alone += sum(one.verdict in ("higher", "lower") for one in found)
        adjusted += sum(proven([one.p for one in found]))
    assert 0.03 < alone / 3000 < 0.07
    assert adjusted / 3000 < 0.005


def test_adjusted_tests_still_find_a_difference_and_skip_what_has_none() -> None:
    real = ratio_of_pairs([1.30, 1.31, 1.29, 1.32, 1.30, 1.28], [1.0] * 6).p
    assert proven([real, 0.2, None, 0.6, 0.9]) == [True, False, False, False, False]
    assert proven([None, None]) == [False, False]


def test_bounds_keep_their_rank_in_a_median() -> None:
    assert relation_of_median([(5, "="), (6, "="), (1, "<")]) == "="
    assert relation_of_median([(5, "="), (1, "<"), (1, "<")]) == "<"
    # A bound from below at 4 stands above the values that were reached.
    assert relation_of_median([(5, "="), (4, ">="), (4, ">=")]) == ">="
    assert relation_of_median([(5, "<"), (4, ">=")]) == "<"


def test_a_few_limited_trials_leave_a_median_that_is_known() -> None:
    rates = [10.0, 10.1, 10.2, 10.3, 10.4]
    assert not limited_median([(rate, False) for rate in rates])
    assert not limited_median([(3.0, True), *((rate, False) for rate in rates)])
    assert not limited_median([(99.0, True), *((rate, False) for rate in rates)])
    assert limited_median([(rate, number > 1) for number, rate in enumerate(rates)])
    # Taken as boundless, the one limited trial would raise this median by a third.
    assert limited_median([(10.0, True), (12.0, False), (16.0, False)])
    assert not limited_median([])


def test_neither_a_phase_nor_a_disturbed_sample_moves_the_ratio_of_a_round() -> None:
    """Twice the speed in every pair, while the machine slows down and one sample of ten is lost."""
    generator = np.random.default_rng(7)
    ours: dict[int, dict[int, float]] = {}
    theirs: dict[int, dict[int, float]] = {}
    for at in range(6):
        phase = np.repeat(generator.uniform(0.6, 1.0, 5), 2)
        theirs[at] = dict(enumerate(phase * np.exp(generator.normal(0, 0.02, 10))))
        ours[at] = dict(enumerate(2 * phase * np.exp(generator.normal(0, 0.02, 10))))
        ours[at][at] *= 0.3
    found = ratio_of_rounds(ours, theirs)
    assert found is not None and found.pairs == 6
    assert found.value == pytest.approx(2.0, rel=0.02)
    assert found.low is not None and found.high is not None and found.low < 2.0 < found.high
    assert (found.width or 1) < 0.03
    # By the means of the sides the disturbed samples would count.
    means = ratio_of_pairs(
        *([float(np.mean([*one.values()])) for one in side.values()] for side in (ours, theirs))
    )
    assert means.value < 0.97 * found.value


def test_a_sample_without_a_partner_does_not_count() -> None:
    """Of a slow phase in which the other side has no sample the ratio must know nothing."""
    ours = {0: {0: 8.0, 1: 2.0, 3: 8.0}, 1: {0: 5.0}}
    found = paired(ours, {0: {1: 1.0, 2: 9.0, 3: 4.0}, 2: {0: 1.0}})
    assert found is not None and found.rounds[0] == pytest.approx((4.0, 2.0))
    assert found.ratio.value == pytest.approx(2.0) and found.ratio.pairs == 1
    assert found.samples == 2
    assert paired({0: {0: 1.0}}, {1: {0: 1.0}}) is None
    assert ratio_of_rounds({0: {0: 1.0}}, {0: {1: 1.0}}) is None


@given(
    st.lists(
        st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)), min_size=1, max_size=9),
        min_size=1, max_size=6,
    )
)  # fmt: skip
def test_a_ratio_is_that_of_the_two_values_beside_it(
    rounds: list[list[tuple[float, float]]],
) -> None:
    ours = {at: {n: a for n, (a, _) in enumerate(pairs)} for at, pairs in enumerate(rounds)}
    theirs = {at: {n: b for n, (_, b) in enumerate(pairs)} for at, pairs in enumerate(rounds)}
    found = paired(ours, theirs)
    assert found is not None
    assert found.ratio.value == pytest.approx(found.over.value / found.under.value, rel=1e-6)
    assert found.over.rounds == found.under.rounds == found.ratio.pairs == len(rounds)
    for side in (found.over, found.under):
        assert side.minimum <= side.value * (1 + 1e-9) and side.value <= side.maximum * (1 + 1e-9)


def test_samples_of_one_turn_take_the_next_free_one() -> None:
    drawn: dict[int, dict[int, float]] = {}
    for turn, value in ((0, 5.0), (0, 6.0), (1, 7.0)):
        in_turn(drawn, 3, turn, value)
    assert drawn == {3: {0: 5.0, 1: 6.0, 2: 7.0}}


def test_a_phase_in_which_others_had_the_core_is_left_out_even_at_the_start() -> None:
    """Two of seven rounds with half a core made the interval of a ratio 2.7 times as wide."""
    taken = [0.5, 0.5, 0.05, 0.02, 0.04, 0.03, 0.06]
    samples = [Sample("mrr", "", at, 1.0 if share < 0.1 else 0.4, disturbance=share)
               for at, share in enumerate(taken)]  # fmt: skip
    assert [sample.round for sample in calm(samples)] == [2, 3, 4, 5, 6]
    assert set(rounds_of(samples)) == {2, 3, 4, 5, 6}
    never = [Sample("mrr", "", at, 1.0, disturbance=0.4 + at / 100) for at in range(5)]
    assert calm(never) == never and calm([]) == []


def test_a_little_is_taken_from_all_and_leaves_them() -> None:
    little = [Sample("mrr", "", at, 1.0, disturbance=share) for at, share in
              enumerate([0.0, 0.0, 0.0, 0.09])]  # fmt: skip
    assert calm(little) == little
