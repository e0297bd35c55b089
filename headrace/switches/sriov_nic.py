# SPDX-License-Identifier: Apache-2.0
"""A network adapter with an embedded switch, as the kernel shows it (devlink's mode switchdev).

Each virtual function has two interfaces: its own, which a VNF gets, and a representor, which is its
port of the embedded switch: what the function sends comes in there, what goes out there the
function receives. The physical function's interface is the representor of the wire.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from headrace.switches.base import SwitchError

_REPRESENTOR = re.compile(r"(?:c\d+)?pf\d+vf(\d+)")


@dataclass(frozen=True)
class VirtualFunction:
    """A virtual function: its number, representor and its own interface, None if a VNF has it."""

    number: int
    representor: str
    interface: str | None


class Nic:
    """The adapter of the physical function with the interface `pf`; `sysfs` is /sys."""

    def __init__(self, pf: str, sysfs: Path = Path("/sys")) -> None:
        self.pf = pf
        self._net = sysfs / "class/net"

    def check(self) -> None:
        """Whether it can steer.

        Raises:
            SwitchError: there is no such interface, it is not in switchdev mode, or has no
                functions.
        """
        if not (self._net / self.pf).exists():
            raise SwitchError(f"sr-iov: this machine has no interface {self.pf}")
        if not self._read(self.pf, "phys_switch_id"):
            raise SwitchError(
                f"sr-iov: {self.pf} has no embedded switch in use; "
                f"`devlink dev eswitch set pci/ADDRESS mode switchdev` starts it"
            )
        if not self.functions():
            raise SwitchError(
                f"sr-iov: {self.pf} has no virtual functions with representors; "
                f"PUT /node/pci/ADDRESS/virtual-functions makes them"
            )

    def functions(self) -> list[VirtualFunction]:
        """The virtual functions that have representors, by number."""
        switch = self._read(self.pf, "phys_switch_id")
        found = []
        for place in sorted(self._net.iterdir()):
            named = _REPRESENTOR.fullmatch(self._read(place.name, "phys_port_name"))
            if named and switch and self._read(place.name, "phys_switch_id") == switch:
                number = int(named[1])
                found.append(VirtualFunction(number, place.name, self.interface(number)))
        return sorted(found, key=lambda function: function.number)

    def interface(self, number: int) -> str | None:
        """The interface of a virtual function, if it is in this network namespace."""
        place = self._net / self.pf / "device" / f"virtfn{number}" / "net"
        names = sorted(entry.name for entry in place.iterdir()) if place.is_dir() else []
        return next((name for name in names if (self._net / name).exists()), None)

    def _read(self, interface: str, name: str) -> str:
        try:
            return (self._net / interface / name).read_text().strip()
        except OSError:  # not of a switch
            return ""
