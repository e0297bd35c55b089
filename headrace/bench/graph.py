# SPDX-License-Identifier: Apache-2.0
"""Builds the NF-FG (the node's JSON service graph) of a shape, and the streams for it.

The graph has both directions, as in a service with replies; the bench sends in one. Parallel VNFs
are selected by the destination MAC, one address for each VNF: the generator sends one stream to
each (`vnf_mac`), so that distributing the traffic costs the switch one exact match and no hash.
"""

from collections.abc import Mapping
from typing import Any

from headrace.results import Shape
from headrace.results.frame_sizes import CAPTURE

ENTRY = "in"
EXIT = "out"
PRIORITY = 10
SOURCE_MAC = "02:48:52:00:00:01"


def vnf_mac(index: int) -> str:
    """Destination MAC of the frames for parallel VNF number `index` (from 0)."""
    return f"02:48:52:00:01:{index:02x}"


def prefix(index: int) -> str:
    """Network address of the /24 number `index` of RFC 2544's range 198.18.0.0/15 (512 of them)."""
    return f"198.{18 + index // 256}.{index % 256}.0"


def _rule(number: int, match: dict[str, str], output: str) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "priority": PRIORITY,
        "match": match,
        "actions": [{"output_to_port": output}],
    }


def _endpoint(name: str, interface: str) -> dict[str, Any]:
    return {"id": name, "type": "interface", "interface": {"if-name": interface}}


def _vnf(index: int, template: str, addressed: bool) -> dict[str, Any]:
    near = {"id": "port:0", "name": "towards in"}
    return {
        "id": f"vnf{index}",
        "name": template,
        "vnf_template": template,
        "functional-capability": template,
        "ports": [
            {**near, "mac": vnf_mac(index)} if addressed else near,
            {"id": "port:1", "name": "towards out"},
        ],
    }


def _near(index: int) -> str:
    return f"vnf:vnf{index}:port:0"


def _far(index: int) -> str:
    return f"vnf:vnf{index}:port:1"


def _joins(shape: Shape, vnfs: int, prefixes: int) -> list[tuple[dict[str, str], str]]:
    """The rules as (match, output) pairs, forward and backward."""
    entry, leave = f"endpoint:{ENTRY}", f"endpoint:{EXIT}"
    if shape == "p2p" and prefixes:
        forward = [
            ({"port_in": entry, "ether_type": "0x0800", "dest_ip": f"{prefix(index)}/24"}, leave)
            for index in range(prefixes)
        ]
        return [*forward, ({"port_in": leave}, entry)]
    if shape == "p2p":
        return [({"port_in": entry}, leave), ({"port_in": leave}, entry)]
    if shape == "chain":
        hops = [entry]
        for index in range(vnfs):
            hops += [_near(index), _far(index)]
        hops.append(leave)
        pairs = [(hops[at], hops[at + 1]) for at in range(0, len(hops), 2)]
        forward = [({"port_in": a}, b) for a, b in pairs]
        backward = [({"port_in": b}, a) for a, b in reversed(pairs)]
        return [*forward, *backward]
    joins: list[tuple[dict[str, str], str]] = []
    for index in range(vnfs):
        mac = vnf_mac(index)
        joins += [
            ({"port_in": entry, "dest_mac": mac}, _near(index)),
            ({"port_in": _far(index)}, leave),
            ({"port_in": leave, "source_mac": mac}, _far(index)),
            ({"port_in": _near(index)}, entry),
        ]
    return joins


def build(
    shape: Shape,
    vnfs: int,
    template: str,
    entry_interface: str,
    exit_interface: str,
    prefixes: int = 0,
    addressed: bool = False,
) -> dict[str, Any]:
    """The NF-FG of a shape between two physical ports of the node.

    Args:
        shape: p2p, chain or parallel.
        vnfs: number of VNFs (0 for p2p).
        template: name of the template that every VNF is made from.
        entry_interface: physical port on which traffic enters.
        exit_interface: physical port on which traffic leaves.
        prefixes: p2p only: that many rules at the entry, one for each /24 of destinations, instead
            of one by port.
        addressed: the VNFs have the addresses to which the traffic is sent (`vnf_mac`), as those
            need that look at it.

    Raises:
        ValueError: the shape can't have this number of VNFs.
    """
    if (shape == "p2p") != (vnfs == 0) or vnfs < 0:
        raise ValueError(f"{shape} with {vnfs} VNFs is no graph")
    return {
        "forwarding-graph": {
            "name": f"bench {shape} {vnfs}" if vnfs else f"bench {shape}",
            "VNFs": [_vnf(index, template, addressed) for index in range(vnfs)],
            "end-points": [_endpoint(ENTRY, entry_interface), _endpoint(EXIT, exit_interface)],
            "big-switch": {
                "flow-rules": [
                    _rule(number, match, output)
                    for number, (match, output) in enumerate(_joins(shape, vnfs, prefixes), 1)
                ]
            },
        }
    }


def with_unused_rules(graph: dict[str, Any], count: int) -> dict[str, Any]:
    """The graph with `count` further rules that match no stream (RFC 5737's addresses)."""
    inner = graph["forwarding-graph"]
    rules = inner["big-switch"]["flow-rules"]
    more = [
        _rule(
            len(rules) + number,
            {
                "port_in": f"endpoint:{ENTRY}",
                "ether_type": "0x0800",
                "dest_ip": f"203.0.113.{number % 256}/32",
                "source_ip": f"192.0.2.{number // 256}/32",
            },
            f"endpoint:{EXIT}",
        )
        for number in range(1, count + 1)
    ]
    switch = {**inner["big-switch"], "flow-rules": [*rules, *more]}
    return {"forwarding-graph": {**inner, "big-switch": switch}}


def streams(
    shape: Shape,
    vnfs: int,
    size: str,
    flows: int,
    tx_port: str,
    rx_port: str,
    both_ways: bool = False,
    headers: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The generator's streams for a shape: one, or one for each parallel VNF.

    The flows are divided over the streams, at least one each; every stream has the same share of
    the load. A capture (`pcap:` and its path) is one stream. `both_ways`: as many streams come from
    the other end, with addresses exchanged. `headers` are further members of every stream.
    """
    if size.startswith(CAPTURE):
        one = {"name": "s0", "tx_port": tx_port, "rx_port": rx_port,
               "pcap": size.removeprefix(CAPTURE)}  # fmt: skip
        other = {**one, "name": "r0", "tx_port": rx_port, "rx_port": tx_port}
        return [one, other] if both_ways else [one]
    count = vnfs if shape == "parallel" else 1
    frame: int | str = int(size) if size.isdigit() else size
    share, more = divmod(max(flows, count), count)
    made = [
        {
            "name": f"s{index}",
            "tx_port": tx_port,
            "rx_port": rx_port,
            "size": frame,
            "flows": share + (1 if index < more else 0),
            "share": 1,
            "dst_mac": vnf_mac(index),
            "src_mac": SOURCE_MAC,
            "src_ip": "198.18.0.1",
            "dst_ip": "198.18.0.1",
            **(headers or {}),
        }
        for index in range(count)
    ]
    if not both_ways:
        return made
    back = [
        {
            **stream,
            "name": f"r{index}",
            "tx_port": rx_port,
            "rx_port": tx_port,
            "dst_mac": SOURCE_MAC,
            "src_mac": vnf_mac(index),
        }
        for index, stream in enumerate(made)
    ]
    return [*made, *back]
