# SPDX-License-Identifier: Apache-2.0
"""Who of the node uses which PCI function: its physical ports, and its virtual machines."""

import re
from collections.abc import Iterable, Mapping

from headrace.engines.base import VnfSpec
from headrace.switches.base import PortSpec

_DEVARGS = re.compile(r"(?:pci:)?((?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")


def function_of(devargs: str) -> str | None:
    """The PCI address that DPDK's device arguments begin with, as sysfs writes it."""
    found = _DEVARGS.match(devargs)
    if found is None:
        return None
    address = found[1].lower()
    return address if address.count(":") == 2 else f"0000:{address}"


def name_of(vnf: VnfSpec) -> str:
    """What a VNF is called among the users of functions."""
    return f"VNF {vnf.graph}/{vnf.vnf}"


def users_of(ports: Mapping[str, PortSpec], vnfs: Iterable[VnfSpec]) -> dict[str, list[str]]:
    """The functions in use by their addresses, with `port <name>` or `VNF <graph>/<id>` of each."""
    users: dict[str, list[str]] = {}
    for name, port in ports.items():
        if address := function_of(port.options.get("devargs", "")):
            users.setdefault(address, []).append(f"port {name}")
    for vnf in vnfs:
        if vnf.engine == "vm":
            for address in vnf.configuration.get("pci", ()):
                users.setdefault(str(address), []).append(name_of(vnf))
    return users
