# SPDX-License-Identifier: Apache-2.0
"""Tunnel end-points, and the rules of LSI-0 that carry their outer packets.

The outer address of a tunnel is one that node.yaml gives to a physical port
(`ports[].addresses`): which addresses go out where is the operator's to say, not a graph's. LSI-0
is the underlay: the switch lets the outer packets in as if the host had sent them, and takes from
it, at its own port, what belongs to its tunnels. The rules for that are the node's, above those of
all graphs, and take nothing but tunnels, ARP and neighbor discovery of these addresses.
"""

import ipaddress
from collections.abc import Mapping

from headrace.node.config import PortConfig
from headrace.node.errors import GraphRefused
from headrace.node.planning.end_point_models import GreTunnelModel, GtpuModel, VxlanModel
from headrace.node.planning.matching import number
from headrace.node.planning.resources import Claim
from headrace.node.planning.surroundings import Surroundings
from headrace.switches.base import TUNNELS, PortSpec
from headrace.switches.fields import (
    ETH_ARP,
    ETH_IPV4,
    ETH_IPV6,
    FIELDS,
    PROTO_ICMPV6,
    PROTO_UDP,
)
from headrace.switches.rules import LOCAL, FieldMatch, Output, Rule

TunnelModel = GreTunnelModel | VxlanModel | GtpuModel
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_PRIORITY = 65535
_PROTO_GRE, _VXLAN_PORT, _GTPU_PORT = 47, 4789, 2152
_SOLICITATION, _ADVERTISEMENT = 135, 136
_KEY_BITS = {"gre-tunnel": 32, "vxlan": 24, "gtpu": 32}


def tunnel_port(
    kind: str,
    model: TunnelModel,
    where: str,
    node: Surroundings,
    name: str,
    labels: dict[str, str],
) -> PortSpec:
    """The port of a tunnel end-point; `where` is the place of its object in the document.

    Raises:
        GraphRefused: an address, a key or the TTL is wrong, or the node has no such address.
    """
    local, remote = (
        _address(text, f"{where}.{key}")
        for key, text in (("local-ip", model.local_ip), ("remote-ip", model.remote_ip))
    )
    if isinstance(model, GreTunnelModel) and model.secure:
        raise GraphRefused("end-points", f"{where}.secure: this node has no IPsec; leave it out")
    if local.version != remote.version:
        text = "is of another IP version than local-ip"
        raise GraphRefused("end-points", f"{where}.remote-ip: {text}")
    if remote.is_multicast or remote.is_unspecified or remote == local:
        raise GraphRefused("end-points", f"{where}.remote-ip: {remote} is no other node's address")
    options = {
        "remote_ip": str(remote),
        "local_ip": str(local),
        "underlay": node.lsi0,
        **_keys(kind, model, where),
        **_next_hop(local, remote, where, node),
    }
    if model.ttl is not None:
        ttl = number(model.ttl, 8, f"{where}.ttl")
        if ttl == 0:
            raise GraphRefused("end-points", f"{where}.ttl: 0 is out of range 1 to 255")
        options["ttl"] = str(ttl)
    return PortSpec(name=name, kind=TUNNELS[kind], options=options, labels=labels)


def claim_of(port: PortSpec) -> Claim:
    """What of the node a tunnel takes: packets of one key between two addresses."""
    options = port.options
    key = options.get("key") or options["in_key"]
    text = f"the {port.kind} tunnel of key {key} from {options['remote_ip']}"
    return Claim(port=f"{text} to {options['local_ip']}")


def _address(text: str, where: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise GraphRefused("end-points", f"{where}: {text!r} is no IP address") from None


def _keys(kind: str, model: TunnelModel, where: str) -> dict[str, str]:
    bits = _KEY_BITS[kind]
    match model:
        case GreTunnelModel():
            return {"key": str(number(model.gre_key, bits, f"{where}.gre-key"))}
        case VxlanModel():
            return {"key": str(number(model.vni, bits, f"{where}.vni"))}
        case GtpuModel():
            return {
                option: str(number(text, bits, f"{where}.{option[:-4]}-teid"))
                for option, text in (("in_key", model.in_teid), ("out_key", model.out_teid))
            }


def _next_hop(local: Address, remote: Address, where: str, node: Surroundings) -> dict[str, str]:
    """The prefix of the local address, and the gateway, if the remote address is not in it."""
    known = [
        (ipaddress.ip_interface(text), port)
        for port in node.config.ports or []
        for text in port.addresses
    ]
    for interface, port in known:
        if interface.ip != local:
            continue
        prefix = {"local_prefix": str(interface.network.prefixlen)}
        if remote in interface.network:
            return prefix
        for gateway in port.gateways:
            if ipaddress.ip_address(gateway) in interface.network:
                return {**prefix, "gateway": gateway}
        raise GraphRefused(
            "end-points",
            f"{where}.remote-ip: {remote} is not in {interface.network}, and port {port.name} has "
            f"no gateway (ports[].gateways in node.yaml)",
        )
    addresses = ", ".join(str(interface.ip) for interface, _ in known) or "none"
    raise GraphRefused(
        "end-points",
        f"{where}.local-ip: this node has no address {local} for tunnels; it has: {addresses} "
        f"(ports[].addresses in node.yaml)",
    )


def underlay_rules(
    configured: list[PortConfig], ports: Mapping[str, PortSpec], lsi0: str
) -> list[Rule]:
    """The rules of LSI-0 for the addresses that its ports have."""
    rules = []
    for port in configured:
        for text in port.addresses:
            address = ipaddress.ip_interface(text).ip
            name = ports[port.name].name
            label = f"address {address} of port {port.name}"
            for match in _received(address):
                rules.append(_rule(lsi0, label, name, LOCAL, {**match, "vlan_vid": 0}))
            for match in _sent(address):
                rules.append(_rule(lsi0, label, LOCAL, name, match))
    return rules


def _received(address: Address) -> list[dict[str, int]]:
    if address.version == 4:
        to = {"eth_type": ETH_IPV4, "ipv4_dst": int(address)}
        found = [{"eth_type": ETH_ARP, "arp_tpa": int(address)}]
    else:
        to = {"eth_type": ETH_IPV6, "ipv6_dst": int(address)}
        icmp = {"eth_type": ETH_IPV6, "ip_proto": PROTO_ICMPV6}
        found = [
            {**icmp, "icmpv6_type": _SOLICITATION, "ipv6_nd_target": int(address)},
            {**icmp, "icmpv6_type": _ADVERTISEMENT, "ipv6_dst": int(address)},
        ]
    found.append({**to, "ip_proto": _PROTO_GRE})
    for port in (_VXLAN_PORT, _GTPU_PORT):
        found.append({**to, "ip_proto": PROTO_UDP, "udp_dst": port})
    return found


def _sent(address: Address) -> list[dict[str, int]]:
    if address.version == 4:
        return [
            {"eth_type": ETH_ARP, "arp_spa": int(address)},
            {"eth_type": ETH_IPV4, "ipv4_src": int(address)},
        ]
    return [{"eth_type": ETH_IPV6, "ipv6_src": int(address)}]


def _rule(lsi: str, label: str, in_port: str, out: str, match: Mapping[str, int]) -> Rule:
    return Rule(
        lsi=lsi,
        label=label,
        priority=_PRIORITY,
        in_port=in_port,
        match={n: FieldMatch(value=value, mask=FIELDS[n].ones) for n, value in match.items()},
        actions=(Output(port=out),),
    )
