# SPDX-License-Identifier: Apache-2.0
"""What the simulated node does to a frame: the rules in force of its graphs, and its VNFs."""

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from headrace.conformance.frames import tags_of, without_tags

Graph = dict[str, Any]
_MOST_HOPS = 40


@dataclass
class Deployed:
    """A graph: its document, the rules that are in force, its VNFs, and what was counted."""

    document: Graph
    rules: list[Graph]
    lsi: str
    counted: Counter[str] = field(default_factory=Counter)
    octets: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    replicas: Counter[str] = field(default_factory=Counter)

    @property
    def inner(self) -> Graph:
        """The graph within its document."""
        found: Graph = self.document["forwarding-graph"]
        return found

    def point(self, name: str) -> Graph:
        """An end-point."""
        return next(each for each in self.inner["end-points"] if each["id"] == name)

    def template(self, vnf: str) -> str:
        """The template of a VNF."""
        return next(str(v["vnf_template"]) for v in self.inner["VNFs"] if v["id"] == vnf)


def target_of(octets: bytes) -> str:
    """The IPv4 destination of a frame."""
    return str(ipaddress.IPv4Address(without_tags(octets)[30:34]))


def matches(rule: Graph, destination: str) -> bool:
    """Whether a rule matches a packet to an IPv4 destination, at its port."""
    wanted = rule["match"].get("dest_ip")
    if wanted is None:
        return True
    return ipaddress.IPv4Address(destination) in ipaddress.ip_network(wanted)


def entry(deployed: Deployed, port: str, tags: tuple[int, ...]) -> str | None:
    """The end-point of a graph to which a frame at a physical port belongs."""
    for point in deployed.inner["end-points"]:
        inside = point.get(point["type"], {})
        if inside.get("if-name") != port:
            continue
        if point["type"] == "interface":
            return str(point["id"])
        if point["type"] == "vlan" and tags[:1] == (int(inside["vlan-id"]),):
            return str(point["id"])
    return None


def pushed(octets: bytes, tag: int) -> bytes:
    """A frame with a tag more."""
    return octets[:12] + b"\x81\x00" + tag.to_bytes(2, "big") + octets[12:]


def popped(octets: bytes) -> bytes:
    """A frame without its outermost tag."""
    return octets[:12] + octets[16:]


def through(
    deployed: Deployed, port: str, octets: bytes, fault: int | None
) -> list[tuple[str, bytes]] | None:
    """What of a frame comes out of which ports; None if it is not this graph's."""
    point = entry(deployed, port, tags_of(octets))
    if point is None:
        return None
    if deployed.point(point)["type"] == "vlan":
        octets = popped(octets)
    out: list[tuple[str, bytes]] = []
    waiting = [(f"endpoint:{point}", octets)]
    for _ in range(_MOST_HOPS):
        if not waiting:
            break
        place, frame = waiting.pop()
        fitting = [r for r in deployed.rules
                   if r["match"]["port_in"] == place and matches(r, target_of(frame))]  # fmt: skip
        if not fitting:
            continue
        rule = max(fitting, key=lambda each: int(each["priority"]))
        deployed.counted[rule["id"]] += 1
        deployed.octets[rule["id"]] += len(frame)
        for action in rule["actions"]:
            kind, _, name = action["output_to_port"].partition(":")
            if kind == "endpoint":
                out.append(_leave(deployed, name, frame, fault))
                continue
            vnf, _, label = name.partition(":")
            deployed.seen[vnf] += 1
            ports = next(v["ports"] for v in deployed.inner["VNFs"] if v["id"] == vnf)
            other = next(p["id"] for p in ports if p["id"] != label)
            waiting.append((f"vnf:{vnf}:{other}", frame))
    return out


def _leave(deployed: Deployed, name: str, octets: bytes, fault: int | None) -> tuple[str, bytes]:
    point = deployed.point(name)
    inside = point[point["type"]]
    if point["type"] == "vlan" and fault != 21:
        octets = pushed(octets, int(inside["vlan-id"]))
    return str(inside["if-name"]), octets
