# SPDX-License-Identifier: Apache-2.0
"""Leaves out what was measured while other programs had the cores, where there is calmer to be had.

A program that polls on the worker's core takes half of it, and a row's rounds before it ended are
not of the switch. How much of the cores others usually have differs from machine to machine and
with the number of VNFs, so what is left out is relative, and found afterwards: a phase at the start
of a campaign is not known as one until it has ended.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from headrace.results.records import DISTURBED, Sample
from headrace.results.statistics import Rounds, in_turn

TIMES_CALM = 2.0
"""More than this multiple of what the calmest quarter of a row's samples had at most."""


def calm(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of one metric of a case without those that were clearly more disturbed.

    Disturbed is what lost more than `DISTURBED` of its time, and more than `TIMES_CALM` times as
    much as a quarter of the samples did. On a machine that is never calm all of them stay.
    """
    if not samples:
        return []
    usual = float(np.quantile([sample.disturbance for sample in samples], 0.25))
    most = max(DISTURBED, TIMES_CALM * usual)
    return [sample for sample in samples if sample.disturbance <= most]


def rounds_of(samples: Iterable[Sample]) -> Rounds:
    """The calm, positive samples of one metric of a case by round and turn."""
    drawn: dict[int, dict[int, float]] = {}
    for sample in calm([sample for sample in samples if sample.value > 0]):
        in_turn(drawn, sample.round, sample.turn, sample.value)
    return drawn
