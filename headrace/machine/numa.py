# SPDX-License-Identifier: Apache-2.0
"""Which NUMA node each core belongs to, as the kernel says in sysfs."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

_NODES = Path("/sys/devices/system/node")


def numa_nodes(nodes: Path = _NODES) -> dict[int, int]:
    """The NUMA node of each core; empty on a kernel that has no notion of them."""
    found = {}
    for place in nodes.glob("node[0-9]*"):
        try:
            text = (place / "cpulist").read_text().strip()
        except OSError:
            continue
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            for core in range(int(first), int(last or first) + 1):
                found[core] = int(place.name.removeprefix("node"))
    return found


@lru_cache(maxsize=1)
def _here() -> dict[int, int]:
    return numa_nodes()


def numa_of(core: int) -> int:
    """The NUMA node of a core of this machine; 0 if the kernel does not say."""
    return _here().get(core, 0)


def node_of(cores: Iterable[int], known: Mapping[int, int] | None = None) -> int | None:
    """The NUMA node of all these cores; None if they are of several, or there is but one."""
    known = _here() if known is None else known
    nodes = {known.get(core) for core in cores}
    return nodes.pop() if len(nodes) == 1 and len(set(known.values())) > 1 else None
