# SPDX-License-Identifier: Apache-2.0
"""Discovery of PCI network functions from sysfs (Documentation/ABI/testing/sysfs-bus-pci)."""

import re
from dataclasses import dataclass
from pathlib import Path

_NETWORK_CLASS = 0x02
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PciError(Exception):
    """A PCI function is not there or cannot do that; the text names it, why, and the remedy."""


class Sysfs:
    """The kernel's view of the machine. Tests put a directory of their own in its place."""

    def __init__(self, root: Path = Path("/sys")) -> None:
        self.root = root

    @property
    def devices(self) -> Path:
        """Where every PCI function has a directory."""
        return self.root / "bus" / "pci" / "devices"

    @property
    def drivers(self) -> Path:
        """Where every PCI driver has a directory."""
        return self.root / "bus" / "pci" / "drivers"

    def write(self, path: Path, text: str) -> None:
        """Writes to an attribute: the kernel acts on it, or refuses by an OSError."""
        path.write_text(text)


SYSFS = Sysfs()


@dataclass(frozen=True)
class VirtualFunctions:
    """The virtual functions of a physical one: how many it can have, and those that it has."""

    total: int
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class PciFunction:
    """A network function of the PCI bus.

    `numa_node` and `iommu_group` are None where the machine does not say; without a group a
    function cannot be given to a VM. `physical` is the address of a virtual function's parent, and
    `number` its number there. `interfaces` are the kernel's network interfaces on it.
    """

    address: str
    vendor: int
    device: int
    driver: str | None
    numa_node: int | None
    iommu_group: int | None
    interfaces: tuple[str, ...]
    mac: str | None
    link_mbps: int | None
    virtual_functions: VirtualFunctions | None
    physical: str | None
    number: int | None


def directory_of(address: str, sysfs: Sysfs = SYSFS) -> Path:
    """The sysfs directory of a function.

    Raises:
        PciError: the address is none, or nothing is there.
    """
    if not _ADDRESS.fullmatch(address):
        raise PciError(f"{address!r} is no PCI address such as 0000:03:00.0")
    path = sysfs.devices / address
    if not path.is_dir():
        raise PciError(f"{address}: this machine has no such PCI function")
    return path


def network_functions(sysfs: Sysfs = SYSFS) -> list[PciFunction]:
    """All network functions of the machine in the order of their addresses."""
    if not sysfs.devices.is_dir():
        return []
    found = []
    for path in sorted(sysfs.devices.iterdir()):
        device_class = _number(path / "class")
        if device_class is not None and device_class >> 16 == _NETWORK_CLASS:
            found.append(read_function(path.name, sysfs))
    return found


def read_function(address: str, sysfs: Sysfs = SYSFS) -> PciFunction:
    """One function as it is now.

    Raises:
        PciError: there is no such function.
    """
    path = directory_of(address, sysfs)
    interfaces = _interfaces(path)
    physical = _linked(path / "physfn")
    return PciFunction(
        address=address,
        vendor=_number(path / "vendor") or 0,
        device=_number(path / "device") or 0,
        driver=_linked(path / "driver"),
        numa_node=_not_negative(_number(path / "numa_node")),
        iommu_group=_as_number(_linked(path / "iommu_group")),
        interfaces=tuple(interface.name for interface in interfaces),
        mac=_text(interfaces[0] / "address") if interfaces else None,
        link_mbps=_not_negative(_number(interfaces[0] / "speed")) if interfaces else None,
        virtual_functions=_virtual_functions(path),
        physical=physical,
        number=_number_at(address, physical, sysfs) if physical else None,
    )


def _interfaces(path: Path) -> list[Path]:
    """The network interfaces of a function; those of a virtio device are one level deeper."""
    return sorted([*path.glob("net/*"), *path.glob("virtio*/net/*")])


def _virtual_functions(path: Path) -> VirtualFunctions | None:
    total = _number(path / "sriov_totalvfs")
    if not total:
        return None
    links = sorted(path.glob("virtfn*"), key=lambda link: int(link.name.removeprefix("virtfn")))
    return VirtualFunctions(total, tuple(link.resolve().name for link in links))


def _number_at(address: str, physical: str, sysfs: Sysfs) -> int | None:
    for link in (sysfs.devices / physical).glob("virtfn*"):
        if link.resolve().name == address:
            return int(link.name.removeprefix("virtfn"))
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:  # an interface that is down refuses to tell its speed
        return None


def _as_number(text: str | None) -> int | None:
    try:
        return int(text, 0) if text is not None else None
    except ValueError:
        return None


def _number(path: Path) -> int | None:
    return _as_number(_text(path))


def _not_negative(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _linked(link: Path) -> str | None:
    """The name of what a symbolic link points to."""
    return link.resolve().name if link.is_symlink() else None
