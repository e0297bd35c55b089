# SPDX-License-Identifier: Apache-2.0
"""What this machine has: processor, memory, disks, network interfaces, coprocessors.

Memory and disks are psutil's; what it has not (the processor's features, NUMA nodes, functions of
the PCI bus) is read from /proc and sysfs. All is read each time, since memory and disks are used by
others and devices come and go. What the kernel does not say is None. Reading blocks for a few
milliseconds.
"""

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from headrace.machine.numa import numa_of

_CPUINFO = Path("/proc/cpuinfo")
_NET, _PCI = Path("/sys/class/net"), Path("/sys/bus/pci/devices")
_ACCELERATORS = ("0x0b40", "0x1200")
"""PCI classes of coprocessors and processing accelerators (PCI Code and ID Assignment, 1.11)."""


def report(paths: Iterable[Path]) -> dict[str, Any]:
    """The machine, with the file systems of `paths`; sizes in octets, for GET /node/resources."""
    return {
        "cpu": _processor(),
        "memory": _memory(),
        "disks": [_disk(path) for path in paths],
        "nics": [_interface(place) for place in sorted(_NET.glob("*")) if _is_end(place)],
        "accelerators": accelerators(),
    }


def _processor() -> dict[str, Any]:
    text = _CPUINFO.read_text()
    cores = [int(number) for number in re.findall(r"^processor\s*: (\d+)$", text, re.MULTILINE)]
    nodes: dict[int, list[int]] = {}
    for core in cores:
        nodes.setdefault(numa_of(core), []).append(core)
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    features = re.search(r"^(?:flags|Features)\s*: (.*)$", text, re.MULTILINE)
    return {
        "number": len(cores),
        "model": model[1].strip() if model else None,
        "architecture": platform.machine(),
        "features": features[1].split() if features else [],
        "numa": [{"node": node, "cores": found} for node, found in sorted(nodes.items())],
    }


def _memory() -> dict[str, int]:
    found = psutil.virtual_memory()
    return {"total": found.total, "available": found.available}


def _disk(path: Path) -> dict[str, Any]:
    usage = psutil.disk_usage(str(path))
    return {"path": str(path), "total": usage.total, "free": usage.free}


def _is_end(place: Path) -> bool:
    """Whether an interface is one in its own right: no end of a pair, no VLAN of another."""
    return place.is_symlink() and _text(place / "iflink") == _text(place / "ifindex")


def _interface(place: Path) -> dict[str, Any]:
    device = place / "device"
    virtual = sum(1 for _ in device.glob("virtfn*")) if device.exists() else 0
    # The kernel asks the driver, under its one lock: only where there is a device.
    speed = _integer(place / "speed") if device.exists() else None
    numa = _integer(device / "numa_node")
    return {
        "name": place.name,
        "mac": _text(place / "address"),
        "mtu": _integer(place / "mtu"),
        "up": _text(place / "operstate") == "up",
        "speed_mbps": speed if speed is not None and speed > 0 else None,
        "pci": os.path.basename(os.path.realpath(device)) if _is_pci(device) else None,
        "numa_node": numa if numa is not None and numa >= 0 else None,
        "virtual_functions": virtual,
    }


def _is_pci(device: Path) -> bool:
    return device.exists() and Path(os.path.realpath(device / "subsystem")).name == "pci"


def accelerators(devices: Path = _PCI) -> list[dict[str, Any]]:
    """The coprocessors on the PCI bus."""
    found = []
    for place in sorted(devices.glob("*")):
        if (_text(place / "class") or "").startswith(_ACCELERATORS):
            found.append(
                {
                    "address": place.name,
                    "vendor": _hexadecimal(place / "vendor"),
                    "device": _hexadecimal(place / "device"),
                }
            )
    return found


def _text(file: Path) -> str | None:
    """What a file of sysfs says; some refuse to be read while their device is down."""
    try:
        return file.read_text().strip()
    except OSError:
        return None


def _integer(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _hexadecimal(file: Path) -> int | None:
    text = _text(file)
    return int(text, 16) if text is not None and re.fullmatch(r"0x[0-9a-f]+", text) else None
