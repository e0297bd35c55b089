# SPDX-License-Identifier: Apache-2.0
"""Changes of the machine are told once, and what changes by itself is none."""

import copy
from pathlib import Path
from typing import Any

from headrace.node.events import EventKind, Events
from headrace.node.resource_watch import ResourceWatch, changes, machine_of

MACHINE: dict[str, Any] = {
    "cpu": [{"node": 0, "cores": [0, 1]}],
    "memory": 1 << 34,
    "disks": {"/var/lib": 1 << 40},
    "nics": {"ens1": {"name": "ens1", "up": True, "virtual_functions": 0}},
    "accelerators": {},
}


async def test_each_change_is_told_once() -> None:
    events, now = Events(), copy.deepcopy(MACHINE)
    told: list[Any] = []
    events.call(lambda event: told.append((event.kind, event.details["changed"])))
    watch = ResourceWatch(events, lambda: copy.deepcopy(now))
    await watch.look()
    await watch.look()
    assert told == []
    now["nics"]["ens1"]["virtual_functions"] = 4
    await watch.look()
    now["nics"]["ens2"] = {"name": "ens2", "up": False, "virtual_functions": 0}
    now["cpu"] = [{"node": 0, "cores": [0]}]
    await watch.look()
    del now["nics"]["ens1"]
    now["accelerators"]["0000:01:00.0"] = {"address": "0000:01:00.0"}
    await watch.look()
    await watch.look()
    assert told == [
        (EventKind.RESOURCES_CHANGED, ["nics ens1"]),
        (EventKind.RESOURCES_CHANGED, ["cpu", "nics ens2"]),
        (EventKind.RESOURCES_CHANGED, ["nics ens1", "accelerators 0000:01:00.0"]),
    ]


def test_a_machine_that_is_left_alone_does_not_change(tmp_path: Path) -> None:
    before = machine_of(tmp_path)
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    assert changes(before, machine_of(tmp_path)) == []
    assert before["memory"] > 0 and before["cpu"] and before["disks"]
