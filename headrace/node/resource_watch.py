# SPDX-License-Identifier: Apache-2.0
"""Tells when the machine itself changes: cores, memory, disks, network interfaces, coprocessors.

What graphs take and give back is told by the graphs' own events. Here it is what an operator, or a
fault, does to the machine: a core or a module of memory taken off line, a network card that goes or
loses its link, virtual functions that are made. What changes all the time (free memory, free space)
is no change, and neither are interfaces without a device, which the node makes itself.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.machine import hardware
from headrace.machine.places import state_of
from headrace.node.events import EventKind, Events

log = logging.getLogger("headrace.node")

_LOOK_EVERY_S = 5.0
_NET = Path("/sys/class/net")

Resources = dict[str, Any]


def machine_of(rundir: Path) -> Resources:
    """What the machine has that does not change by itself."""
    found = hardware.report([state_of(rundir)])
    return {
        "cpu": found["cpu"]["numa"],
        "memory": found["memory"]["total"],
        "disks": {disk["path"]: disk["total"] for disk in found["disks"]},
        "nics": {n["name"]: n for n in found["nics"] if (_NET / n["name"] / "device").exists()},
        "accelerators": {each["address"]: each for each in found["accelerators"]},
    }


def changes(before: Resources, after: Resources) -> list[str]:
    """What is another, as `kind` or, where things have names, `kind name`."""
    found = []
    for kind, now in after.items():
        was = before[kind]
        if not isinstance(now, dict):
            found += [kind] if was != now else []
            continue
        names = sorted(was.keys() | now.keys())
        found += [f"{kind} {name}" for name in names if was.get(name) != now.get(name)]
    return found


class ResourceWatch:
    """Watches one machine; `run` until cancelled."""

    def __init__(self, events: Events, read: Callable[[], Resources]) -> None:
        """`read` gives the machine's resources and may block for a moment."""
        self._events, self._read = events, read
        self._known: Resources | None = None

    async def look(self) -> None:
        """Compares the machine with what it was at the last look."""
        found = await asyncio.to_thread(self._read)
        if self._known is not None:
            changed = changes(self._known, found)
            if changed:
                log.warning("the machine's resources have changed: %s", ", ".join(changed))
                self._events.publish(EventKind.RESOURCES_CHANGED, changed=changed)
        self._known = found

    async def run(self) -> None:
        """Looks every few seconds."""
        while True:
            try:
                await self.look()
            except (OSError, ValueError, KeyError) as error:  # a device that is just going
                log.error("cannot read the machine's resources: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)
