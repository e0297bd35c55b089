# SPDX-License-Identifier: Apache-2.0
"""What the rules of a graph join: hops from one port to another, and the order of its VNFs.

A port is written as in rules, `vnf:ID:LABEL:N` or `endpoint:ID`; its owner is `vnf:ID` or
`endpoint:ID`. Only owners have a place on a node.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LINK_PREFIX = "hr-link-"
"""Identifiers of end-points and rules of parts that stand for a link; no graph may use them."""


class CannotCut(Exception):
    """A graph that can't be divided; the message says where and what to do."""


@dataclass(frozen=True, order=True)
class Hop:
    """Packets of some rule go from one port to another, there by a queue if it is not empty."""

    source: str
    target: str
    queue: str = ""


def owner_of(port: str) -> str:
    """The VNF or end-point that has a port."""
    kind, _, rest = port.partition(":")
    return f"{kind}:{rest.partition(':')[0]}"


def outputs_of(action: Mapping[str, Any]) -> list[str]:
    """The ports to which an action sends."""
    if "output_to_port" in action:
        return [str(action["output_to_port"])]
    return [
        str(one["port"]) if isinstance(one, dict) else str(one)
        for one in action.get("output_to_one_of", [])
    ]


def queue_of(rule: Mapping[str, Any]) -> str:
    """The queue in which a rule's packets wait; empty: none."""
    for action in rule["actions"]:
        if "output_to_queue" in action:
            return str(action["output_to_queue"])
    return ""


def rules_of(graph: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The flow rules of a graph."""
    return list(graph.get("big-switch", {}).get("flow-rules", []))


def hops_of_rule(rule: Mapping[str, Any]) -> Iterator[Hop]:
    """The hops of a rule, in order."""
    source, queue = str(rule["match"]["port_in"]), queue_of(rule)
    for action in rule["actions"]:
        for target in outputs_of(action):
            yield Hop(source, target, queue)


def owners_of(graph: Mapping[str, Any]) -> list[str]:
    """All VNFs and end-points of a graph, as it lists them."""
    ends = [f"endpoint:{end['id']}" for end in graph.get("end-points", [])]
    return ends + [f"vnf:{vnf['id']}" for vnf in graph.get("VNFs", [])]


def check(graph: Mapping[str, Any]) -> None:
    """Whether every port that a rule names is there, and no identifier is the controller's.

    Raises:
        CannotCut: the first that is not.
    """
    ports = {f"endpoint:{end['id']}" for end in graph.get("end-points", [])}
    for vnf in graph.get("VNFs", []):
        ports |= {f"vnf:{vnf['id']}:{port['id']}" for port in vnf.get("ports", [])}
    for end in graph.get("end-points", []):
        if str(end["id"]).startswith(LINK_PREFIX):
            raise CannotCut(f"end-points: {end['id']}: begins with {LINK_PREFIX}; rename it")
    for rule in rules_of(graph):
        if str(rule["id"]).startswith(LINK_PREFIX):
            raise CannotCut(f"flow-rules: {rule['id']}: begins with {LINK_PREFIX}; rename it")
        named = [str(rule["match"]["port_in"])]
        named += [port for action in rule["actions"] for port in outputs_of(action)]
        for port in named:
            if port not in ports:
                raise CannotCut(f"flow-rules: {rule['id']}: there is no port {port!r}")


def sequence(graph: Mapping[str, Any]) -> list[str]:
    """The owners in the order in which packets first meet them, depth first.

    It begins at the first end-point; what no packet reaches from there comes after, as listed. Of a
    chain it is the chain.
    """
    after: dict[str, list[str]] = {}
    for rule in rules_of(graph):
        for hop in hops_of_rule(rule):
            after.setdefault(owner_of(hop.source), []).append(owner_of(hop.target))
    found: dict[str, None] = {}
    for start in owners_of(graph):
        waiting = [start]
        while waiting:
            owner = waiting.pop()
            if owner in found:
                continue
            found[owner] = None
            waiting += reversed(after.get(owner, []))
    return list(found)


def neighbors(graph: Mapping[str, Any]) -> dict[str, list[str]]:
    """By owner, those with which it has a hop in either direction, in the order of the rules."""
    found: dict[str, dict[str, None]] = {owner: {} for owner in owners_of(graph)}
    for rule in rules_of(graph):
        for hop in hops_of_rule(rule):
            source, target = owner_of(hop.source), owner_of(hop.target)
            if source != target:
                found[source][target] = None
                found[target][source] = None
    return {owner: list(others) for owner, others in found.items()}
