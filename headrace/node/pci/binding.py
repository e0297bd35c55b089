# SPDX-License-Identifier: Apache-2.0
"""Which driver a PCI function has. DPDK and VMs reach a function by vfio-pci.

`driver_override` names the one driver that may take the function, so no other device of its kind
is touched (Documentation/ABI/testing/sysfs-bus-pci). A function whose network interface is up is in
use by somebody and is not taken away from them.

Isolation. vfio gives away whole IOMMU groups: every function of the group must be with vfio-pci, a
bridge or nobody. Without an IOMMU a device can write anywhere in memory, so such a function is
refused.
"""

import contextlib
import os
from pathlib import Path

from headrace.node.pci.functions import SYSFS, PciError, Sysfs, directory_of, read_function

VFIO = "vfio-pci"

_IFF_UP = 1
_HARMLESS = {None, VFIO, "pcieport"}


def bind_to_vfio(address: str, sysfs: Sysfs = SYSFS) -> str | None:
    """Gives the function to vfio-pci; the driver that it had, for `bind_to`.

    Raises:
        PciError: it is in use, not isolated, or vfio-pci is not there or does not take it.
    """
    function = read_function(address, sysfs)
    if function.driver == VFIO:
        return VFIO
    if function.iommu_group is None:
        raise PciError(
            f"{address} is in no IOMMU group: switch the IOMMU on in the firmware and with "
            f"intel_iommu=on or amd_iommu=on"
        )
    for other in _group(function.iommu_group, sysfs):
        driver = read_function(other, sysfs).driver
        if other != address and driver not in _HARMLESS:
            raise PciError(
                f"{address} shares IOMMU group {function.iommu_group} with {other}, which driver "
                f"{driver} has; both must go to vfio-pci"
            )
    bind_to(address, VFIO, sysfs)
    return function.driver


def bind_to(address: str, driver: str | None, sysfs: Sysfs = SYSFS) -> None:
    """Gives the function to `driver`, or with None to whichever kernel driver wants it.

    Raises:
        PciError: it is in use, there is no such driver, or the driver does not take it.
    """
    path = directory_of(address, sysfs)
    function = read_function(address, sysfs)
    if driver is not None and function.driver == driver:
        return
    if driver is not None and not (sysfs.drivers / driver).is_dir():
        raise PciError(f"{address}: this kernel has no driver {driver}; load it: modprobe {driver}")
    for interface in function.interfaces:
        if _is_up(path, interface):
            raise PciError(
                f"{address} is in use: its interface {interface} is up; ip link set {interface} "
                f"down, if nobody needs it"
            )
    try:
        # A newline alone takes the override away.
        sysfs.write(path / "driver_override", f"{driver or ''}\n")
        if function.driver is not None:
            sysfs.write(path / "driver" / "unbind", address)
        sysfs.write(sysfs.devices.parent / "drivers_probe", address)
    except OSError as error:
        raise PciError(
            f"{address}: driver {driver or 'of the kernel'}: {error.strerror}"
        ) from error
    if driver is not None and read_function(address, sysfs).driver != driver:
        _give_back(address, sysfs)
        raise PciError(f"{address}: {driver} did not take it; the kernel's log may say why")


def _give_back(address: str, sysfs: Sysfs) -> None:
    """Lets whichever driver wants a function take it, as after a driver that did not."""
    with contextlib.suppress(OSError):  # it stays without a driver, as it is
        sysfs.write(directory_of(address, sysfs) / "driver_override", "\n")
        sysfs.write(sysfs.devices.parent / "drivers_probe", address)


def device_file(address: str, sysfs: Sysfs = SYSFS) -> str:
    """The path of the function's vfio group, that its user must be able to open.

    Raises:
        PciError: the function is not with vfio-pci, or this process may not open the file.
    """
    function = read_function(address, sysfs)
    if function.driver != VFIO:
        raise PciError(f"{address} is with {function.driver or 'no driver'}, not with {VFIO}")
    path = f"/dev/vfio/{function.iommu_group}"
    if not os.access(path, os.R_OK | os.W_OK):
        raise PciError(f"{address}: {path} cannot be opened for reading and writing")
    return path


def _group(number: int, sysfs: Sysfs) -> list[str]:
    devices = sysfs.root / "kernel" / "iommu_groups" / str(number) / "devices"
    return sorted(entry.name for entry in devices.iterdir()) if devices.is_dir() else []


def _is_up(path: Path, interface: str) -> bool:
    for flags in [
        *path.glob(f"net/{interface}/flags"),
        *path.glob(f"virtio*/net/{interface}/flags"),
    ]:
        return bool(int(flags.read_text(), 0) & _IFF_UP)
    return False
