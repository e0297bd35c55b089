# SPDX-License-Identifier: Apache-2.0
"""Who runs on which core, and whether the machine has enough of them for an honest figure.

A switch's worker, the generator and every VNF each want a core of their own. Where there are fewer,
the worker keeps its own and the others share; then the figure says how well they share as much as
how fast the switch is, and it is marked as oversubscribed.
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
        """Cores that a graph with `vnfs` VNFs wants: worker, generator, control, each VNF one."""
        return 3 + vnfs

    def oversubscribed(self, vnfs: int) -> str | None:
        """Why a graph with `vnfs` VNFs does not have a core for each, or None if it has."""
        lacking = self.demand(vnfs) - len(self.usable)
        if lacking <= 0:
            return None
        sharing = ["generator", "control"] + ([f"{vnfs} VNF" + "s" * (vnfs > 1)] if vnfs else [])
        return (
            f"{len(self.usable)} cores for {self.demand(vnfs)}: {', '.join(sharing)} share core "
            f"{', '.join(str(core) for core in self.generator)}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)


def plan_cores(usable: list[int] | None = None) -> CorePlan:
    """Plans the cores of this machine (or those given): the last is the switch's.

    With three cores and more the generator has one of its own, with four and more the VNFs share
    the rest without it and control.
    """
    cores = sorted(os.sched_getaffinity(0)) if usable is None else sorted(usable)
    if not cores:
        raise ValueError("no core to plan with")
    first, last = cores[0], cores[-1]
    generator = cores[1] if len(cores) >= 3 else first
    vnf = [core for core in cores if core not in {first, last, generator}] or [first]
    return CorePlan(cores, [last], [generator], vnf, [first])
