# SPDX-License-Identifier: Apache-2.0
"""Whether the machine has the memory that a graph's VNFs ask for (`memory-mb` of their templates).

`Inventory` counts what node.yaml grants; this looks at what is there now: free hugepages where the
node uses them, else what the kernel calls available. headrace-vnf does without hugepages if there
are too few (it is slower then, so the graph gets a warning), a virtual machine cannot.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.engines.base import VnfSpec
from headrace.machine.eal import available_mb, hugepages_free_mb, hugepages_lacking
from headrace.node.errors import GraphRefused


@dataclass(frozen=True)
class Memory:
    """The machine's memory as a node uses it; `required`: hugepages or nothing."""

    hugepages: bool
    required: bool = False
    lacking: Callable[[int], str | None] = hugepages_lacking
    available: Callable[[], int] = available_mb
    free: Callable[[], int | None] = hugepages_free_mb

    def hugepages_report(self, granted: Mapping[str, int]) -> dict[str, int]:
        """How much of `granted` (`total`, `used` and `free` MB) is in hugepages.

        All of it if the node uses them, and nothing otherwise. No more is `free` than the machine
        has, whoever took it.
        """
        if not self.hugepages:
            return {"total": 0, "used": 0, "free": 0}
        return {**granted, "free": min(granted["free"], self.free() or 0)}

    def check(self, wanted: Iterable[VnfSpec], held: Iterable[VnfSpec] = ()) -> list[str]:
        """Warnings about the memory of the VNFs `wanted` when those `held` have gone.

        Raises:
            GraphRefused: it is not there; says how much is.
        """
        wanted, held = list(wanted), list(held)
        new = [vnf for vnf in wanted if vnf not in held]
        gone = [vnf for vnf in held if vnf not in wanted]
        needed = sum(vnf.memory_mb for vnf in new) - sum(vnf.memory_mb for vnf in gone)
        if needed <= 0:
            return []
        names = ", ".join(vnf.vnf for vnf in new if vnf.memory_mb)
        if self.hugepages:
            reason = self.lacking(needed)
            if reason is None:
                return []
            if self.required or any(vnf.engine == "vm" for vnf in new):
                raise GraphRefused("resources", f"VNFs {names}: {reason}")
            self._check_ordinary(names, needed)
            return [f"VNFs {names}: without hugepages, so slower: {reason}"]
        self._check_ordinary(names, needed)
        return []

    def _check_ordinary(self, names: str, needed: int) -> None:
        free = self.available()
        if free < needed:
            raise GraphRefused(
                "resources",
                f"VNFs {names}: need {needed} MB of memory, the machine has {free} MB available; "
                f"delete a graph, or lower memory-mb of their templates",
            )
