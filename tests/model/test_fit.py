# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from headrace.model.cost import server_cost
from headrace.model.cycles import CyclePoint, fit_cycles
from headrace.model.fit import Point, fit, predict
from headrace.model.least_squares import FitError

LOADS = (50e3, 100e3, 200e3, 400e3)


def points(alpha: float, beta: float, gamma: float, noise: float = 0.0) -> list[Point]:
    generator = np.random.default_rng(7)
    return [
        Point(
            pps,
            length,
            math.exp(
                alpha * math.log(pps)
                + beta * math.log(length)
                + gamma
                + noise * float(generator.standard_normal())
            ),
        )
        for pps in LOADS
        for length in (1, 2, 3)
    ]


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 1.5), st.floats(-0.5, 1.5), st.floats(-8, 5))
def test_exact_points_give_back_the_coefficients(alpha: float, beta: float, gamma: float) -> None:
    found = fit("s", "gather", 100, points(alpha, beta, gamma))
    assert found.alpha == pytest.approx(alpha, abs=1e-6)
    assert found.beta == pytest.approx(beta, abs=1e-6)
    assert found.gamma == pytest.approx(gamma, abs=1e-5)
    assert found.cv_error == pytest.approx(0, abs=1e-6)
    assert server_cost(found, 150e3, 2) == pytest.approx(
        math.exp(alpha * math.log(150e3) + beta * math.log(2) + gamma), rel=1e-5
    )


def test_noise_shows_in_errors_and_intervals() -> None:
    quiet = fit("s", "gather", 100, points(0.5, 0.6, 1.0, noise=0.02))
    loud = fit("s", "gather", 100, points(0.5, 0.6, 1.0, noise=0.2))
    assert loud.alpha_se > 5 * quiet.alpha_se
    assert loud.cv_error > quiet.cv_error > 0
    assert loud.r2 < quiet.r2 <= 1
    near = predict(quiet, 100e3, 2, points(0.5, 0.6, 1.0))
    far = predict(quiet, 100e6, 2, points(0.5, 0.6, 1.0))
    assert near.low < near.cpu_percent < near.high
    assert not near.extrapolated and far.extrapolated
    assert far.high / far.low > near.high / near.low


def test_the_interval_covers_most_new_points() -> None:
    fitted = fit("s", "gather", 100, points(0.5, 0.6, 1.0, noise=0.1))
    generator = np.random.default_rng(11)
    inside = 0
    for _ in range(200):
        true = math.exp(0.5 * math.log(150e3) + 0.6 * math.log(2) + 1.0)
        drawn = true * math.exp(0.1 * float(generator.standard_normal()))
        guess = predict(fitted, 150e3, 2)
        inside += guess.low <= drawn <= guess.high
    assert inside >= 170


@pytest.mark.parametrize(
    "bad",
    [
        [Point(1e5, 1, 5.0)] * 3,
        [Point(1e5, 1, 5.0 + index) for index in range(6)],
        [Point(1e5 * (index + 1), 1, 5.0) for index in range(6)],
        [*points(0.5, 0.5, 1.0), Point(1e5, 1, 0.0)],
    ],
)
def test_points_that_cannot_carry_a_fit_are_refused(bad: list[Point]) -> None:
    with pytest.raises(FitError):
        fit("s", "gather", 100, bad)


def test_cycles_per_packet_gives_back_its_coefficients() -> None:
    measured = [
        CyclePoint(size, count, 60 + 0.05 * size + 90 * count)
        for size in (64.0, 512.0, 1518.0)
        for count in (1, 2, 3)
    ]
    found = fit_cycles("s", measured)
    assert found.per_packet == pytest.approx(60)
    assert found.per_byte == pytest.approx(0.05)
    assert found.per_hop == pytest.approx(90)
    with pytest.raises(FitError, match="two numbers of hops"):
        fit_cycles("s", [point for point in measured if point.hops == 1] * 2)


def test_repeats_of_a_load_are_not_predicted_from_each_other() -> None:
    """Each load has an error of its own that all its repeats share; rates differ a little."""
    generator = np.random.default_rng(4)
    shift = dict(zip(LOADS, (0.0, 0.3, -0.3, 0.0), strict=True))
    repeated = [
        Point(
            load * (1 + 1e-4 * float(generator.standard_normal())),
            length,
            math.exp(0.5 * math.log(load) + 0.6 * math.log(length) + shift[load]),
            intended_pps=load,
        )
        for load in LOADS
        for length in (1, 2, 3)
        for _ in range(5)
    ]
    apart = [replace(point, intended_pps=0.0) for point in repeated]
    together = fit("s", "gather", 100, repeated).cv_error
    assert together > 1.3 * fit("s", "gather", 100, apart).cv_error
    assert together > 0.25


def test_the_prediction_interval_is_that_of_statsmodels() -> None:
    measured = points(0.5, 0.6, 1.0, noise=0.1)
    guess = predict(fit("s", "gather", 100, measured), 150e3, 2)
    design = np.array([[math.log(p.pps), math.log(p.length), 1.0] for p in measured])
    fitted = OLS(np.log([p.cpu_percent for p in measured]), design).fit()
    frame = fitted.get_prediction(np.array([[math.log(150e3), math.log(2), 1.0]])).summary_frame()
    assert guess.low == pytest.approx(math.exp(frame["obs_ci_lower"][0]))
    assert guess.high == pytest.approx(math.exp(frame["obs_ci_upper"][0]))
