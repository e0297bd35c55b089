# SPDX-License-Identifier: Apache-2.0
"""The resources of a node as it reports them: by its own API, and in its description.

`GET /node/resources` has the machine's under `machine`; the description for the layer above
(`netgroup-domain:informations`, the originals' form) has numbers of cores, memory and storage, and
what of them is free. What a node does not say is None.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reported:
    """Cores; octets of memory and disk; names."""

    cpus: int | None = None
    free_cpus: int | None = None
    model: str | None = None
    architecture: str | None = None
    memory: int | None = None
    free_memory: int | None = None
    disk: int | None = None
    free_disk: int | None = None
    disk_path: str | None = None
    interfaces: tuple[str, ...] | None = None
    accelerators: tuple[str, ...] | None = None


def _at(content: Any, *path: str) -> Any:
    for step in path:
        if not isinstance(content, dict):
            return None
        content = content.get(step)
    return content


def _number(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number else None


def _mib(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else number << 20


def of_machine(content: Any) -> Reported:
    """What GET /node/resources says."""
    machine = _at(content, "machine") or {}
    disks = machine.get("disks") if isinstance(machine, dict) else None
    disk = disks[0] if isinstance(disks, list) and disks and isinstance(disks[0], dict) else {}
    nics, accelerators = _at(machine, "nics"), _at(machine, "accelerators")
    cores = _at(content, "cores")
    free = [
        core for core in cores or [] if "vnf" in core.get("roles", []) and not core.get("polling")
    ]
    return Reported(
        cpus=_number(_at(machine, "cpu", "number")),
        free_cpus=len(free) if isinstance(cores, list) else None,
        model=_at(machine, "cpu", "model"),
        architecture=_at(machine, "cpu", "architecture"),
        memory=_number(_at(machine, "memory", "total")),
        free_memory=_number(_at(machine, "memory", "available")),
        disk=_number(disk.get("total")),
        free_disk=_number(disk.get("free")),
        disk_path=disk.get("path"),
        interfaces=None if nics is None else tuple(str(nic.get("name")) for nic in nics),
        accelerators=(
            None
            if accelerators is None
            else tuple(str(each.get("address")) for each in accelerators)
        ),
    )


def of_description(content: Any) -> Reported:
    """What the description for the layer above says."""
    hardware = _at(content, "netgroup-domain:informations", "hardware-informations")
    resources = _at(hardware, "resources")
    interfaces = _at(hardware, "interfaces", "interface")
    return Reported(
        cpus=_number(_at(resources, "cpu", "number")),
        free_cpus=_number(_at(resources, "cpu", "free")),
        memory=_mib(_at(resources, "memory", "size")),
        free_memory=_mib(_at(resources, "memory", "free")),
        disk=_mib(_at(resources, "storage", "size")),
        free_disk=_mib(_at(resources, "storage", "free")),
        interfaces=(
            None if interfaces is None else tuple(str(each.get("name")) for each in interfaces)
        ),
    )
