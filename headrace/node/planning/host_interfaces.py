# SPDX-License-Identifier: Apache-2.0
"""End-points in the host's own IP stack: which addresses they may have.

Addresses bring routes along, and so take traffic of the whole machine: only those in
`host_stack.networks` of node.yaml can be had, and no two interfaces may have networks that overlap.
"""

import ipaddress

from headrace.node.errors import GraphRefused
from headrace.node.planning.end_point_models import HostStackModel
from headrace.node.planning.resources import HostInterfaceResource
from headrace.node.planning.surroundings import Surroundings
from headrace.switches.base import PortSpec

_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def host_interface(
    model: HostStackModel, point_id: str, where: str, port: PortSpec, node: Surroundings
) -> HostInterfaceResource:
    """The interface of an end-point at `port`; `where` is the place of its object.

    Raises:
        GraphRefused: it is not known how it comes to an address, or it may not have it.
    """
    configuration = (model.configuration or "").lower()
    written = {"IPv4": model.ipv4, "IPv6": model.ipv6}
    if configuration not in ("", "static", "dhcp"):
        text = f"{where}.configuration: {model.configuration!r} is neither static nor DHCP"
        raise GraphRefused("end-points", text)
    if configuration == "dhcp" and any(written.values()):
        text = f"{where}.configuration: DHCP gives the address; leave IPv4 and IPv6 out"
        raise GraphRefused("end-points", text)
    if configuration == "static" and not any(written.values()):
        raise GraphRefused("end-points", f"{where}.IPv4: is missing; write ADDRESS/PREFIX")
    addresses = [
        _address(text, 4 if key == "IPv4" else 6, f"{where}.{key}", node)
        for key, text in written.items()
        if text
    ]
    if configuration == "dhcp" and not any("." in net for net in node.config.host_stack.networks):
        raise GraphRefused(
            "end-points",
            f"{where}.configuration: this node takes no leases; host_stack.networks in node.yaml "
            f"says of which IPv4 networks it may",
        )
    return HostInterfaceResource(
        end_point=point_id,
        port=port,
        mac=model.mac,
        addresses=tuple(str(address) for address in addresses),
        dhcp=configuration == "dhcp",
        networks=tuple(node.config.host_stack.networks),
    )


def _address(text: str, version: int, where: str, node: Surroundings) -> _Interface:
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        address = None
    if address is None or address.version != version or "/" not in text:
        raise GraphRefused("end-points", f"{where}: {text!r} is no IPv{version} ADDRESS/PREFIX")
    allowed = [ipaddress.ip_network(net) for net in node.config.host_stack.networks]
    if not any(net.version == version and _within(address, net) for net in allowed):
        known = ", ".join(map(str, allowed)) or "none"
        raise GraphRefused(
            "end-points",
            f"{where}: {address.network} is not among the networks that graphs may give to the "
            f"host: {known} (host_stack.networks in node.yaml)",
        )
    return address


def _within(address: _Interface, net: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return address.network.subnet_of(net)  # type: ignore[arg-type]  # of the same version


def check_networks(interfaces: list[HostInterfaceResource], node: Surroundings) -> None:
    """Refuses networks that overlap with each other, or with those of other graphs.

    Raises:
        GraphRefused: names both.
    """
    taken = [
        (text, f"end-point {other.end_point} of graph {graph_id}")
        for graph_id, other in node.others.host_interfaces()
        for text in other.addresses
    ]
    for interface in interfaces:
        for text in interface.addresses:
            own = ipaddress.ip_interface(text).network
            for theirs, owner in taken:
                other = ipaddress.ip_interface(theirs).network
                if own.version == other.version and own.overlaps(other):
                    raise GraphRefused(
                        "end-points",
                        f"end-point {interface.end_point}: {own} overlaps with {other} of {owner}; "
                        f"use another network",
                    )
            taken.append((text, f"end-point {interface.end_point}"))
