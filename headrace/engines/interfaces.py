# SPDX-License-Identifier: Apache-2.0
"""Kernel interfaces of a VNF in a network namespace: eth0, eth1, ... in the graph's order.

Each is the far end of a veth pair whose near end is the switch's port. Names, MAC addresses and
what `InterfaceSettings` says are set before the VNF's program starts.
"""

import ipaddress
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.engines.base import EngineError, VnfSpec
from headrace.switches.veth import FAR_END, device_name, inside, silence, wait_until_up

MAX_ROUTES = 1024


class Route(BaseModel):
    """To a network by a gateway that is in the network of an address."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    to: str
    via: str

    @field_validator("to")
    @classmethod
    def _is_network(cls, text: str) -> str:
        return str(ipaddress.ip_network(text))

    @field_validator("via")
    @classmethod
    def _is_address(cls, text: str) -> str:
        return str(ipaddress.ip_address(text))


class InterfaceSettings(BaseModel):
    """`addresses` (such as 10.0.0.1/24) by the graph's port, `routes`, and `forward`: as a router.

    IPv6 is switched off in the namespace unless an address is one of IPv6.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    addresses: dict[str, tuple[str, ...]] = {}
    routes: Annotated[tuple[Route, ...], Field(max_length=MAX_ROUTES)] = ()
    forward: bool = False

    @field_validator("addresses")
    @classmethod
    def _are_addresses(cls, addresses: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for texts in addresses.values():
            for text in texts:
                if "/" not in text:
                    raise ValueError(f"{text}: give the network's prefix, too, as in 10.0.0.1/24")
                ipaddress.ip_interface(text)
        return addresses

    @property
    def with_ipv6(self) -> bool:
        """Whether some address is one of IPv6."""
        texts = [text for texts in self.addresses.values() for text in texts]
        return any(ipaddress.ip_interface(text).version == 6 for text in texts)

    def meets(self, network: ipaddress.IPv4Network) -> bool:
        """Whether the network of an address has a part of this one."""
        texts = [text for texts in self.addresses.values() for text in texts]
        known = (ipaddress.ip_interface(text).network for text in texts)
        return any(one.version == network.version and one.overlaps(network) for one in known)


GRAPH_SETTINGS = frozenset({"addresses", "routes", "forward"})


def check_ports(vnf: VnfSpec, settings: InterfaceSettings) -> None:
    """Whether all addresses are those of ports.

    Raises:
        EngineError: one is of a port that the VNF does not have.
    """
    known = [port.id for port in vnf.ports]
    for port in settings.addresses:
        if port not in known:
            text = f"VNF {vnf.vnf}: configuration.addresses: there is no port {port!r}"
            raise EngineError(f"{text}; there are: {', '.join(known)}")


def move_in(vnf: VnfSpec, namespace: str, prefix: str, settings: InterfaceSettings) -> None:
    """Moves the VNF's ends of its pairs into the namespace (a path) and sets them up.

    Repeatable: what is there already is kept.

    Raises:
        EngineError: an end is gone, or the kernel refuses a setting.
    """
    try:
        for number, port in enumerate(vnf.ports):
            peer = device_name(prefix, FAR_END, port.switch_port.name)
            with IPRoute() as kernel:
                for index in kernel.link_lookup(ifname=peer):
                    kernel.link("set", index=index, net_ns_fd=namespace)
            inside(namespace, partial(_name, vnf, peer, f"eth{number}"))
        inside(namespace, lambda: _set_up(vnf, settings))
    except (NetlinkError, OSError) as error:
        raise EngineError(f"VNF {vnf.vnf}: its interfaces: {error}") from error


def _name(vnf: VnfSpec, peer: str, device: str) -> None:
    with IPRoute() as kernel:
        if kernel.link_lookup(ifname=device):
            return
        found = kernel.link_lookup(ifname=peer)
        if not found:
            text = f"VNF {vnf.vnf}: device {peer} is gone; delete the graph and deploy it again"
            raise EngineError(text)
        kernel.link("set", index=found[0], state="down")
        kernel.link("set", index=found[0], ifname=device)


def _set_up(vnf: VnfSpec, settings: InterfaceSettings) -> None:
    if not settings.with_ipv6:
        for scope in ("all", "default"):
            silence(scope)
    ipv4 = Path("/proc/sys/net/ipv4")
    # Root of the VNF is root of nothing else, so it may have all ports of its own namespace.
    (ipv4 / "ip_unprivileged_port_start").write_text("0")
    if settings.forward:
        (ipv4 / "ip_forward").write_text("1")
        if settings.with_ipv6:
            Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
    with IPRoute() as kernel:
        kernel.link("set", index=kernel.link_lookup(ifname="lo")[0], state="up")
        for number, port in enumerate(vnf.ports):
            index = kernel.link_lookup(ifname=f"eth{number}")[0]
            if port.mac:
                kernel.link("set", index=index, address=port.mac)
            for text in settings.addresses.get(port.id, ()):
                address = ipaddress.ip_interface(text)
                kernel.addr(
                    "replace",
                    index=index,
                    address=str(address.ip),
                    prefixlen=address.network.prefixlen,
                    broadcast=str(address.network.broadcast_address)
                    if address.version == 4
                    else None,
                )
            kernel.link("set", index=index, state="up")
        wait_until_up(f"eth{number}" for number in range(len(vnf.ports)))
        for route in settings.routes:
            kernel.route("replace", dst=route.to, gateway=route.via)


def present(pid: int, vnf: VnfSpec) -> bool:
    """Whether all interfaces of the VNF are in the namespace of the process."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return False
    names = {line.split(":")[0].strip() for line in lines}
    return {f"eth{number}" for number in range(len(vnf.ports))} <= names


def counters(pid: int, vnf: VnfSpec) -> dict[str, dict[str, int | str]]:
    """The kernel's counters of each port, as seen inside (/proc/net/dev).

    Raises:
        EngineError: the VNF has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError as error:
        raise EngineError(f"VNF {vnf.vnf}: {error}") from error
    rows = {line.split(":")[0].strip(): line.split(":")[1].split() for line in lines if ":" in line}
    found: dict[str, dict[str, int | str]] = {}
    for number, port in enumerate(vnf.ports):
        row = rows.get(f"eth{number}")
        if row is None:
            raise EngineError(f"VNF {vnf.vnf}: its interface eth{number} is gone")
        found[port.id] = {
            "rx_packets": int(row[1]),
            "rx_bytes": int(row[0]),
            "rx_dropped": int(row[3]),
            "tx_packets": int(row[9]),
            "tx_bytes": int(row[8]),
            "tx_dropped": int(row[11]),
            "link": "up",
        }
    return found
