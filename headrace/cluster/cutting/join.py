# SPDX-License-Identifier: Apache-2.0
"""The whole graph from its parts, by code that shares nothing with cutting.

Parts are only deployed if they make the graph again: `verify`.
"""

from collections.abc import Mapping
from typing import Any

from headrace.cluster.cutting.cut import Document
from headrace.cluster.cutting.hops import LINK_PREFIX, CannotCut, outputs_of


def normal(graph: Mapping[str, Any]) -> dict[str, Any]:
    """A graph in the form in which equal ones are equal: lists by identifier, queues last."""
    switch = graph.get("big-switch", {})
    rules = []
    for rule in switch.get("flow-rules", []):
        queues = [action for action in rule["actions"] if "output_to_queue" in action]
        others = [action for action in rule["actions"] if action not in queues]
        rules.append({**rule, "actions": others + queues})
    return {
        **graph,
        "VNFs": sorted(graph.get("VNFs", []), key=lambda vnf: str(vnf["id"])),
        "end-points": sorted(graph.get("end-points", []), key=lambda end: str(end["id"])),
        "big-switch": {**switch, "flow-rules": sorted(rules, key=lambda rule: str(rule["id"]))},
    }


def verify(graph: Mapping[str, Any], parts: Mapping[str, Document]) -> None:
    """Whether the parts make the graph.

    Raises:
        CannotCut: they do not: a fault of this program.
    """
    if normal(join(parts)) != normal(graph):
        raise CannotCut("the parts do not make the graph again; report this as a fault of headrace")


def join(parts: Mapping[str, Document]) -> dict[str, Any]:
    """The graph of which these are the parts, by node; lists are in the order of identifiers.

    Raises:
        CannotCut: a link has no other end, or no rule there where packets come.
    """
    graphs = {node: part["forwarding-graph"] for node, part in parts.items()}
    arrivals: dict[tuple[str, str], dict[str, Any]] = {}
    ends: dict[str, list[str]] = {}
    for node, graph in graphs.items():
        for end in graph["end-points"]:
            if _is_link(end["id"]):
                ends.setdefault(end["id"], []).append(node)
        for rule in graph["big-switch"]["flow-rules"]:
            if _is_link(rule["id"]):
                arrivals[node, rule["id"]] = rule
    for name, nodes in ends.items():
        if len(nodes) != 2:
            raise CannotCut(f"{name}: has {len(nodes)} ends, on {', '.join(nodes)}")
    whole: dict[str, Any] = {}
    vnfs, points, rules = [], [], []
    for node, graph in graphs.items():
        whole |= {k: v for k, v in graph.items() if k not in ("VNFs", "end-points", "big-switch")}
        whole["big-switch"] = dict(graph["big-switch"])
        vnfs += graph["VNFs"]
        points += [end for end in graph["end-points"] if not _is_link(end["id"])]
        rules += [
            _joined(rule, node, ends, arrivals)
            for rule in graph["big-switch"]["flow-rules"]
            if not _is_link(rule["id"])
        ]
    whole["VNFs"] = sorted(vnfs, key=lambda vnf: str(vnf["id"]))
    whole["end-points"] = sorted(points, key=lambda end: str(end["id"]))
    whole["big-switch"]["flow-rules"] = sorted(rules, key=lambda rule: str(rule["id"]))
    return whole


def _is_link(name: Any) -> bool:
    return str(name).startswith(LINK_PREFIX)


def _joined(
    rule: dict[str, Any],
    node: str,
    ends: Mapping[str, list[str]],
    arrivals: Mapping[tuple[str, str], dict[str, Any]],
) -> dict[str, Any]:
    queues: list[dict[str, Any]] = []

    def far(port: Any) -> Any:
        name = str(port).removeprefix("endpoint:")
        if not _is_link(name):
            return port
        (other,) = (one for one in ends[name] if one != node)
        taken = arrivals.get((other, name))
        if taken is None:
            raise CannotCut(f"{name}: {other} has no rule for what {node} sends")
        for action in taken["actions"]:
            if "output_to_queue" in action and action not in queues:
                queues.append(action)
        return taken["actions"][0]["output_to_port"]

    actions: list[dict[str, Any]] = []
    for action in rule["actions"]:
        if "output_to_port" in action:
            actions.append({"output_to_port": far(action["output_to_port"])})
        elif outputs_of(action):
            ports = [
                {**one, "port": far(one["port"])} if isinstance(one, dict) else far(one)
                for one in action["output_to_one_of"]
            ]
            actions.append({"output_to_one_of": ports})
        else:
            actions.append(action)
    return {**rule, "actions": actions + queues}
