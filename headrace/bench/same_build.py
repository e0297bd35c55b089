# SPDX-License-Identifier: Apache-2.0
"""A/A: the same build measured as two campaigns, in turn, to see how often a difference is found.

Nothing differs, so whatever the comparison calls different is wrong. Both campaigns share the bed,
its nodes and the generator, and take each round one after the other, A B in one, B A in the next,
so that `compare` pairs their samples by round. A share of more than 5 % of the rows means that the
intervals are too narrow for this machine's noise, and that verdicts of other comparisons are, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.bench.campaign import Bed, Campaign, Progress
from headrace.bench.compare import Change, compare, share_different
from headrace.bench.plan import Block, Clock
from headrace.bench.steps import Timing
from headrace.results.store import Store

GOAL_SHARE = 0.05


@dataclass(frozen=True)
class SameBuild:
    """The outcome: both campaigns, their rows, and the share of these that is called different."""

    first: int
    second: int
    changes: list[Change]
    rounds: int

    @property
    def share(self) -> float:
        """Share of the rows that are called different, 0 to 1."""
        return share_different(self.changes)

    @property
    def met(self) -> bool:
        """Whether at most 5 % of the rows are, of at least one with an interval."""
        judged = [c for c in self.changes if c.ratio is not None and c.ratio.low is not None]
        return bool(judged) and self.share <= GOAL_SHARE


async def run_twice(
    store: Store,
    campaigns: tuple[int, int],
    bed: Bed,
    blocks: Sequence[Block],
    progress: Progress,
    timing: Timing,
    clock: Clock,
    rounds: int = 1000,
    seed: int = 1,
) -> int:
    """Runs two campaigns in turn on one bed, whole rounds only; returns the rounds of each."""
    both = [Campaign(store, number, bed, progress, timing, seed) for number in campaigns]
    progress.planned(blocks, 2 * clock.round_s(blocks), clock.left_s)
    number = 0
    while number < rounds and clock.has_time_for(2 * clock.round_s(blocks) * (number > 0)):
        for campaign in both if number % 2 == 0 else reversed(both):
            await campaign.round(blocks, clock, number)
        number += 1
    for campaign in both:
        campaign.finish(blocks)
    return number


def judge(store: Store, first: int, second: int, rounds: int) -> SameBuild:
    """Compares the two campaigns of `run_twice`."""
    return SameBuild(first, second, compare(store, first, second), rounds)
