# SPDX-License-Identifier: Apache-2.0
"""The graphs that are deployed: idle ones, chains of VNFs, and many rules."""

from typing import Any

Document = dict[str, Any]
MARKED = 7
"""The VLAN tag of the generator's frames in the graphs that carry traffic."""


def _point(name: str, port: str, tag: int | None) -> Document:
    if tag is None:
        return {"id": name, "type": "interface", "interface": {"if-name": port}}
    return {"id": name, "type": "vlan", "vlan": {"if-name": port, "vlan-id": str(tag)}}


def _rule(number: int, source: str, target: str, **match: Any) -> Document:
    return {
        "id": f"r{number}",
        "priority": 10,
        "match": {"port_in": source, **match},
        "actions": [{"output_to_port": target}],
    }


def chain(length: int, tag: int | None = None, template: str = "pass") -> Document:
    """p0, `length` VNFs in a row, p1; both ways, of one VLAN tag if that is given."""
    hops = ["endpoint:in"]
    for number in range(length):
        hops += [f"vnf:v{number}:port:0", f"vnf:v{number}:port:1"]
    hops.append("endpoint:out")
    rules: list[Document] = []
    for at in range(0, len(hops), 2):
        rules.append(_rule(len(rules), hops[at], hops[at + 1]))
        rules.append(_rule(len(rules), hops[at + 1], hops[at]))
    vnfs = [
        {"id": f"v{n}", "vnf_template": template, "ports": [{"id": "port:0"}, {"id": "port:1"}]}
        for n in range(length)
    ]
    return _document([_point("in", "p0", tag), _point("out", "p1", tag)], rules, vnfs)


def idle(number: int) -> Document:
    """Graph `number` (from 0) of many: two tags of its own, joined by a rule each way."""
    tag = 100 + number % 3900
    return _document(
        [_point("in", "p0", tag), _point("out", "p1", tag)],
        [_rule(0, "endpoint:in", "endpoint:out"), _rule(1, "endpoint:out", "endpoint:in")],
        [],
    )


def with_rules(document: Document, count: int, version: int) -> Document:
    """A graph with `count` further rules, which match what never comes, in a version."""
    rules = document["forwarding-graph"]["big-switch"]["flow-rules"]
    more = [
        {
            "id": f"x{number}",
            "priority": 20,
            "match": {
                "port_in": "endpoint:in",
                "ether_type": "0x0800",
                "protocol": "17",
                "source_ip": f"192.0.2.{version}",
                "dest_port": str(1024 + number),
            },
            "actions": [{"output_to_port": "endpoint:out"}],
        }
        for number in range(count)
    ]
    graph = {**document["forwarding-graph"], "big-switch": {"flow-rules": [*rules, *more]}}
    return {"forwarding-graph": graph}


def changed(document: Document, count: int, version: int) -> Document:
    """A version of `with_rules` in which the first `count` of the further rules are others."""
    other = with_rules({"forwarding-graph": {"big-switch": {"flow-rules": []}}}, count, version)[
        "forwarding-graph"
    ]["big-switch"]["flow-rules"]
    new = {rule["id"]: rule for rule in other}
    rules = document["forwarding-graph"]["big-switch"]["flow-rules"]
    graph = {
        **document["forwarding-graph"],
        "big-switch": {"flow-rules": [new.get(rule["id"], rule) for rule in rules]},
    }
    return {"forwarding-graph": graph}


def _document(points: list[Document], rules: list[Document], vnfs: list[Document]) -> Document:
    return {
        "forwarding-graph": {
            "name": "lifecycle",
            "VNFs": vnfs,
            "end-points": points,
            "big-switch": {"flow-rules": rules},
        }
    }
