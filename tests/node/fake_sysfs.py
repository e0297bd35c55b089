# SPDX-License-Identifier: Apache-2.0
"""A sysfs in a directory, and a kernel behind it that binds drivers and makes virtual functions."""

from __future__ import annotations

import errno
from pathlib import Path

from headrace.node.pci.functions import Sysfs


class FakeSysfs(Sysfs):
    """Acts on what is written as Linux does; drivers take only what they are told they know."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.devices.mkdir(parents=True)
        self.drivers.mkdir(parents=True)
        self.taken_by: dict[str, set[str]] = {}
        self.written: list[tuple[str, str]] = []

    def add_driver(self, name: str, *addresses: str) -> None:
        """A driver that takes these functions by itself (all of them if none are given)."""
        (self.drivers / name).mkdir()
        self.taken_by[name] = set(addresses)

    def add_function(
        self,
        address: str,
        *,
        device_class: int = 0x020000,
        driver: str | None = None,
        numa_node: int = -1,
        iommu_group: int | None = None,
        interface: str | None = None,
        up: bool = False,
        total_vfs: int = 0,
        below: str = "",
    ) -> Path:
        """A function; `below` is a directory between it and its interface, as of virtio."""
        path = self.devices / address
        path.mkdir()
        for name, value in (
            ("class", f"{device_class:#08x}"),
            ("vendor", "0x8086"),
            ("device", "0x1572"),
            ("numa_node", str(numa_node)),
            ("driver_override", "(null)"),
        ):
            (path / name).write_text(f"{value}\n")
        if total_vfs:
            (path / "sriov_totalvfs").write_text(f"{total_vfs}\n")
            (path / "sriov_numvfs").write_text("0\n")
        if iommu_group is not None:
            group = self.root / "kernel" / "iommu_groups" / str(iommu_group)
            (group / "devices").mkdir(parents=True, exist_ok=True)
            (group / "devices" / address).symlink_to(path)
            (path / "iommu_group").symlink_to(group)
        if driver is not None:
            (path / "driver").symlink_to(self.drivers / driver)
        if interface is not None:
            place = path / below / "net" / interface
            place.mkdir(parents=True)
            (place / "address").write_text("3c:fd:fe:00:00:01\n")
            (place / "speed").write_text("10000\n")
            (place / "flags").write_text("0x1003\n" if up else "0x1002\n")
        return path

    def write(self, path: Path, text: str) -> None:
        """What Linux does with it."""
        self.written.append((str(path.relative_to(self.root)), text))
        if path.name == "unbind":
            (self.devices / text / "driver").unlink()
        elif path.name == "drivers_probe":
            self._probe(text)
        elif path.name == "sriov_numvfs":
            self._make_virtual(path.parent, int(text))
        else:
            super().write(path, text)

    def _probe(self, address: str) -> None:
        override = (self.devices / address / "driver_override").read_text().strip()
        for name, addresses in self.taken_by.items():
            wanted = override == name or (override == "" and address in addresses)
            if wanted and (not addresses or address in addresses):
                (self.devices / address / "driver").symlink_to(self.drivers / name)
                return

    def _make_virtual(self, physical: Path, count: int) -> None:
        present = int((physical / "sriov_numvfs").read_text())
        if count and present:
            raise OSError(errno.EBUSY, "Device or resource busy")
        bus = physical.name.rsplit(":", 1)[0]
        for number in range(count or present):
            address = f"{bus}:10.{number}"
            if count:
                made = self.add_function(address, iommu_group=100 + number)
                (made / "physfn").symlink_to(physical)
                (physical / f"virtfn{number}").symlink_to(made)
            else:
                (physical / f"virtfn{number}").unlink()
                gone = self.devices / address
                (gone / "iommu_group" / "devices" / address).unlink()
                gone.rename(self.root / f"gone-{len(self.written)}-{number}")
        (physical / "sriov_numvfs").write_text(f"{count}\n")
