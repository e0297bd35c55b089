# SPDX-License-Identifier: Apache-2.0
"""Assigns cores to programs, and determines whether there are enough for a valid figure.

A switch's worker, the generator and every VNF each need a dedicated core. If there are fewer, the
worker keeps its core and the others share; the figure then depends on the sharing as much as on the
switch, and is marked as oversubscribed.
"""

import os
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CorePlan:
    """Cores by role."""

    usable: list[int]
    switch: list[int]
    generator: list[int]
    vnf: list[int]
    control: list[int]

    def demand(self, vnfs: int) -> int:
        """Cores needed for a graph with `vnfs` VNFs: worker, generator, control, one per VNF."""
        return 3 + vnfs

    def oversubscribed(self, vnfs: int) -> str | None:
        """The reason if a graph with `vnfs` VNFs has too few cores, or None."""
        lacking = self.demand(vnfs) - len(self.usable)
        if lacking <= 0:
            return None
        sharing = ["generator", "control"] + ([f"{vnfs} VNF" + "s" * (vnfs > 1)] if vnfs else [])
        return (
            f"{len(self.usable)} cores for {self.demand(vnfs)}: {', '.join(sharing)} share core "
            f"{', '.join(str(core) for core in self.generator)}"
        )

    def with_workers(self, count: int) -> "CorePlan":
        """The plan with the last `count` cores for the switch's workers.

        What there are no cores for besides shares one with them: see `lacking.py`.
        """
        return self if count == len(self.switch) else plan_cores(self.usable, count)

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)


def plan_cores(usable: list[int] | None = None, workers: int = 1) -> CorePlan:
    """Plans the cores of this machine (or those given): the last are the switch's workers'.

    With three or more cores (and one worker) the generator has its own, with four or more the VNFs
    share those that are left besides control's.
    """
    cores = sorted(os.sched_getaffinity(0)) if usable is None else sorted(usable)
    if not cores:
        raise ValueError("no usable core")
    first, switch = cores[0], cores[-workers:]
    generator = cores[1] if len(cores) >= workers + 2 else first
    vnf = [core for core in cores if core not in {first, generator, *switch}] or [first]
    return CorePlan(cores, switch, [generator], vnf, [first])
