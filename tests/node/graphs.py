# SPDX-License-Identifier: Apache-2.0
"""Builds NF-FG documents for tests."""

from typing import Any

Json = dict[str, Any]


def interface(point: str, port: str) -> Json:
    """An interface end-point."""
    return {"id": point, "type": "interface", "interface": {"if-name": port}}


def vlan(point: str, port: str, tag: int) -> Json:
    """A VLAN end-point."""
    return {"id": point, "type": "vlan", "vlan": {"vlan-id": str(tag), "if-name": port}}


def internal(point: str, group: str) -> Json:
    """An end-point in an internal group."""
    return {"id": point, "type": "internal", "internal": {"internal-group": group}}


def rule(name: str, match: Json, *actions: Json, priority: int = 10) -> Json:
    """A flow rule."""
    return {"id": name, "priority": priority, "match": match, "actions": list(actions)}


def out(port: str) -> Json:
    """An output action."""
    return {"output_to_port": port}


def vnf(name: str, template: str, ports: int = 2) -> Json:
    """A VNF with ports `port:0`, `port:1`..."""
    return {
        "id": name,
        "name": name,
        "vnf_template": template,
        "ports": [{"id": f"port:{number}"} for number in range(ports)],
    }


def document(end_points: list[Json], rules: list[Json], vnfs: list[Json] | None = None) -> Json:
    """The whole document."""
    return {
        "forwarding-graph": {
            "name": "test",
            "VNFs": vnfs or [],
            "end-points": end_points,
            "big-switch": {"flow-rules": rules},
        }
    }


def joined(*hops: tuple[str, str]) -> list[Json]:
    """Plain rules both ways between each pair of ports."""
    rules: list[Json] = []
    for a, b in hops:
        rules.append(rule(f"r{len(rules)}", {"port_in": a}, out(b)))
        rules.append(rule(f"r{len(rules)}", {"port_in": b}, out(a)))
    return rules


def shared(graph: Json) -> Json:
    """The graph with end-points that other graphs may use, too."""
    for point in graph["forwarding-graph"]["end-points"]:
        point[point["type"]]["shared"] = True
    return graph


def port_to_port() -> Json:
    """p0 and p1 joined."""
    return document(
        [interface("in", "p0"), interface("out", "p1")], joined(("endpoint:in", "endpoint:out"))
    )


def chain(template: str, vnfs: int) -> Json:
    """p0, VNFs in a row, p1."""
    hops = ["endpoint:in"]
    for number in range(vnfs):
        hops += [f"vnf:v{number}:port:0", f"vnf:v{number}:port:1"]
    hops.append("endpoint:out")
    pairs = [(hops[at], hops[at + 1]) for at in range(0, len(hops), 2)]
    return document(
        [interface("in", "p0"), interface("out", "p1")],
        joined(*pairs),
        [vnf(f"v{number}", template) for number in range(vnfs)],
    )
