# SPDX-License-Identifier: Apache-2.0
"""SR-IOV: makes virtual functions, and says by netlink what each of them may do.

The number of virtual functions is the physical function's `sriov_numvfs`; the kernel changes it
only from or to 0, so going from 2 to 4 means to remove two that someone may use. What a virtual
function may do is the physical function's business (IFLA_VF_* of rtnetlink(7)): the guest that has
it cannot change it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from headrace.node.pci.functions import SYSFS, PciError, Sysfs, directory_of, read_function


@dataclass(frozen=True)
class VirtualSettings:
    """What a virtual function may do; None leaves a setting as it is.

    `vlan` 0 is none; with another the function sees only that VLAN, and no tag. `trust` lets it go
    promiscuous and change its address. `spoof_check` drops what it sends from another address.
    Rates in Mbit/s of what it sends; a `max_rate_mbps` of 0 is no limit.
    """

    mac: str | None = None
    vlan: int | None = None
    vlan_priority: int = 0
    trust: bool | None = None
    spoof_check: bool | None = None
    min_rate_mbps: int | None = None
    max_rate_mbps: int | None = None

    def __post_init__(self) -> None:
        if self.vlan is not None and not 0 <= self.vlan <= 4094:
            raise PciError(f"vlan {self.vlan}: give 1 to 4094, or 0 for none")
        if not 0 <= self.vlan_priority <= 7:
            raise PciError(f"VLAN priority {self.vlan_priority}: give 0 to 7")
        low, high = self.min_rate_mbps or 0, self.max_rate_mbps or 0
        if low < 0 or high < 0 or (high and low > high):
            raise PciError(f"rates {low} to {high} Mbit/s: the least must not exceed the most")

    def attributes(self, number: int) -> list[dict[str, Any]]:
        """The requests for virtual function `number`, each for one of pyroute2's `vf=`.

        One setting at a time, so that a refusal names the setting that the driver does not have.
        """
        wanted: list[dict[str, Any]] = []
        if self.mac is not None:
            wanted.append({"mac": self.mac})
        if self.vlan is not None:
            wanted.append({"vlan": {"vlan": self.vlan, "qos": self.vlan_priority}})
        if self.spoof_check is not None:
            wanted.append({"spoofchk": int(self.spoof_check)})
        if self.trust is not None:
            wanted.append({"trust": int(self.trust)})
        if self.min_rate_mbps is not None or self.max_rate_mbps is not None:
            rates = {
                "min_tx_rate": self.min_rate_mbps or 0,
                "max_tx_rate": self.max_rate_mbps or 0,
            }
            wanted.append({"rate": rates})
        return [{"vf": number, **setting} for setting in wanted]


def set_count(
    address: str, count: int, *, in_use: Collection[str] = (), sysfs: Sysfs = SYSFS
) -> tuple[str, ...]:
    """Makes the physical function have `count` virtual ones; their addresses.

    Those that exist stay if there are as many already. `in_use` are addresses that must not go.
    The kernel's drivers take new functions only if `sriov_drivers_autoprobe` says so.

    Raises:
        PciError: it has no SR-IOV, not as many, one of them is in use, or the kernel refuses.
    """
    path = directory_of(address, sysfs)
    present = read_function(address, sysfs).virtual_functions
    if present is None:
        raise PciError(
            f"{address} has no SR-IOV: the device, its driver or the firmware's setting lacks it"
        )
    if not 0 <= count <= present.total:
        raise PciError(f"{address}: {count} virtual functions; it can have 0 to {present.total}")
    if len(present.addresses) == count:
        return present.addresses
    taken = sorted(set(present.addresses) & set(in_use))
    if taken:
        raise PciError(
            f"{address}: {', '.join(taken)} would go with the change to {count} virtual "
            f"functions and is in use; delete its graph first"
        )
    setting = path / "sriov_numvfs"
    try:
        if present.addresses:
            sysfs.write(setting, "0")
        if count:
            sysfs.write(setting, str(count))
    except OSError as error:
        raise PciError(f"{address}: {count} virtual functions: {error.strerror}") from error
    made = read_function(address, sysfs).virtual_functions
    return made.addresses if made else ()


def configure(
    address: str,
    settings: VirtualSettings,
    *,
    sysfs: Sysfs = SYSFS,
    send: Callable[[str, dict[str, Any]], None] | None = None,
) -> None:
    """Sets what the virtual function `address` may do. `send` replaces netlink in tests.

    Raises:
        PciError: it is no virtual function, its physical one has no interface in the kernel (it is
            bound to vfio-pci itself), or the driver refuses a setting.
    """
    function = read_function(address, sysfs)
    if function.physical is None or function.number is None:
        raise PciError(f"{address} is no virtual function")
    parent = read_function(function.physical, sysfs)
    if not parent.interfaces:
        raise PciError(
            f"{address}: its physical function {parent.address} has no network interface; it must "
            f"keep the kernel's driver (it has {parent.driver or 'none'})"
        )
    for request in settings.attributes(function.number):
        what = next(key for key in request if key != "vf")
        try:
            (send or _send)(parent.interfaces[0], request)
        except OSError as error:
            raise PciError(f"{address}: {parent.driver} refuses {what}: {error}") from error


def _send(interface: str, request: dict[str, Any]) -> None:
    """RTM_SETLINK with one IFLA_VF_INFO."""
    from pyroute2 import IPRoute  # as late as this: see the package's head
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as route:
        index = route.link_lookup(ifname=interface)[0]
        try:
            route.link("set", index=index, vf=dict(request))
        except NetlinkError as error:
            raise OSError(error.code, str(error)) from error
