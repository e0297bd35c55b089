# SPDX-License-Identifier: Apache-2.0
"""Which two cases a question compares: two switches, many flows and few, two lengths of a chain.

A question is answered by a ratio of two cases that were measured in the same rounds. Each pair is
found by one rule: the cases are equal in everything but one member.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from headrace.results.records import Case

PEER = "ovs-dpdk"
OURS = "headrace"

By = Literal["switch", "flows", "vnfs"]


@dataclass(frozen=True)
class Contrast:
    """Two cases that differ in `by` only: the answer is the ratio of `over` to `under`."""

    by: By
    over: Case
    under: Case

    @property
    def name(self) -> str:
        """In words, with the scenario: `flow-sweep 64B 100000 flows / 1 flow @headrace`."""
        over, under = self.over, self.under
        what = f"{over.scenario} {over.frames}"
        if self.by == "switch":
            flows = f" {over.flows} flows" if over.prefixes else ""
            return f"{what} {over.graph}{flows}: {over.switch} / {under.switch}"
        if self.by == "flows":
            return f"{what} {over.graph} @{over.switch}: {over.flows} flows / {under.flows}"
        return f"{what} @{over.switch}: chain of {over.vnfs} / {under.vnfs}"


def by_switch(cases: Iterable[Case]) -> list[Contrast]:
    """Headrace over OVS-DPDK wherever both have the case."""
    known = list(dict.fromkeys(cases))
    return [
        Contrast("switch", case, other)
        for case in known
        if case.switch == OURS and (other := replace(case, switch=PEER)) in known
    ]


def by_flows(cases: Iterable[Case]) -> list[Contrast]:
    """Each number of flows over the fewest, of the same switch."""
    groups: dict[Case, list[Case]] = defaultdict(list)
    for case in dict.fromkeys(cases):
        groups[replace(case, flows=0)].append(case)
    found = []
    for group in groups.values():
        few, *more = sorted(group, key=lambda case: case.flows)
        found += [Contrast("flows", many, few) for many in more]
    return found


def by_length(cases: Iterable[Case]) -> list[Contrast]:
    """The longest chain over the shortest, of the same switch."""
    groups: dict[Case, list[Case]] = defaultdict(list)
    for case in dict.fromkeys(cases):
        if case.shape == "chain":
            groups[replace(case, vnfs=0)].append(case)
    found = []
    for group in groups.values():
        ordered = sorted(group, key=lambda case: case.vnfs)
        if len(ordered) > 1:
            found.append(Contrast("vnfs", ordered[-1], ordered[0]))
    return found


def contrasts_of(cases: Iterable[Case]) -> list[Contrast]:
    """All of the three kinds."""
    known = list(cases)
    return by_switch(known) + by_flows(known) + by_length(known)
