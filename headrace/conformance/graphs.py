# SPDX-License-Identifier: Apache-2.0
"""The graphs that the tests deploy, as NF-FGs that every generation of the node can have."""

from typing import Any

Graph = dict[str, Any]
PRIORITY = 10


def interface(name: str, port: str) -> Graph:
    """An end-point: all traffic of a physical port."""
    return {"id": name, "name": name, "type": "interface", "interface": {"if-name": port}}


def vlan(name: str, port: str, tag: int) -> Graph:
    """An end-point: the traffic of one tag on a physical port."""
    point = {"vlan-id": str(tag), "if-name": port}
    return {"id": name, "name": name, "type": "vlan", "vlan": point}


def vnf(name: str, template: str, capability: str = "", labels: tuple[str, ...] = ()) -> Graph:
    """A VNF with two ports."""
    first, second = labels if len(labels) == 2 else ("port", "port")
    return {
        "id": name,
        "name": capability or template,
        "vnf_template": template,
        "functional-capability": capability or template,
        "ports": [{"id": f"{first}:0", "name": "first"}, {"id": f"{second}:1", "name": "second"}],
    }


def rule(name: str, source: str, *outputs: str, priority: int = PRIORITY, **match: str) -> Graph:
    """A flow rule from one port of the big switch to others."""
    return {
        "id": name,
        "priority": priority,
        "match": {"port_in": source, **match},
        "actions": [{"output_to_port": output} for output in outputs],
    }


def graph(
    name: str, points: list[Graph], rules: list[Graph], vnfs: list[Graph] | None = None
) -> Graph:
    """A whole NF-FG."""
    return {
        "forwarding-graph": {
            "name": name,
            "VNFs": vnfs or [],
            "end-points": points,
            "big-switch": {"flow-rules": rules},
        }
    }


def wire(first: str, second: str, name: str = "wire", priority: int = PRIORITY) -> Graph:
    """Two physical ports joined, both ways."""
    return between(interface("a", first), interface("b", second), name, priority)


def between(first: Graph, second: Graph, name: str, priority: int = PRIORITY) -> Graph:
    """Two end-points joined, both ways."""
    a, b = f"endpoint:{first['id']}", f"endpoint:{second['id']}"
    rules = [rule("there", a, b, priority=priority), rule("back", b, a, priority=priority)]
    return graph(name, [first, second], rules)


def chain(first: Graph, second: Graph, vnfs: list[Graph], name: str = "chain") -> Graph:
    """Two end-points with VNFs in between, both ways: the subscriber's side is `first`."""
    places = [f"endpoint:{first['id']}"]
    for each in vnfs:
        places += [f"vnf:{each['id']}:{port['id']}" for port in each["ports"]]
    places.append(f"endpoint:{second['id']}")
    pairs = list(zip(places[::2], places[1::2], strict=True))
    rules = [rule(f"there{n}", a, b) for n, (a, b) in enumerate(pairs)]
    rules += [rule(f"back{n}", b, a) for n, (a, b) in enumerate(reversed(pairs))]
    return graph(name, [first, second], rules, vnfs)


def inner(document: Graph) -> Graph:
    """The graph within its document."""
    found: Graph = document["forwarding-graph"]
    return found


def rules_of(document: Graph) -> list[Graph]:
    """The flow rules of a document."""
    found: list[Graph] = inner(document).get("big-switch", {}).get("flow-rules", [])
    return found
