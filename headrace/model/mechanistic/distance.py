# SPDX-License-Identifier: Apache-2.0
"""How far apart two cores are, in nanoseconds of a cache line there and back.

A hypervisor may put two cores of a machine on one complex of cores with one cache, or on two, and
move them at any time. Rings and buffers between a switch and a VNF are lines that both write, so
what a visit costs then changes by a factor of up to two. Windows of one fit have to be of one
state; a prediction is for that state.
"""

from collections.abc import Iterable

SAME = 1.2
"""Two distances whose ratio is less are of one state."""


def is_same(one: float, other: float) -> bool:
    """Whether two distances are of one state."""
    return max(one, other) <= SAME * min(one, other)


def usual(distances: Iterable[float | None]) -> float | None:
    """The distance that most of the known ones are the same as; None of none."""
    known = sorted(one for one in distances if one is not None)
    if not known:
        return None
    return max(known, key=lambda one: sum(is_same(one, other) for other in known))
