# SPDX-License-Identifier: Apache-2.0
"""The parts of a graph whose VNFs and end-points are on several nodes.

A rule belongs to the node of its `port_in`. Where it sends to a port of another node, it sends to a
VXLAN end-point instead, and the other node has one rule that takes what comes there to the port. So
matches, priorities, timeouts and changes of headers stay with the rule, on one node.

A link joins two ports (`Link.ports`) of two nodes and carries the packets from either to the other,
so that a hop and its way back are one tunnel. It has one VNI. Hops by a queue have a link of their
own, because the queue is at the far port.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.cluster.cutting.hops import (
    LINK_PREFIX,
    CannotCut,
    Hop,
    hops_of_rule,
    outputs_of,
    owner_of,
    queue_of,
    rules_of,
)

Where = Mapping[str, str]
"""By owner (`vnf:ID`, `endpoint:ID`), its node."""
Document = dict[str, Any]
"""What a node's PUT /NF-FG takes."""


@dataclass(frozen=True, order=True)
class Link:
    """Two ports of two nodes that a tunnel joins; `ports` are in order, `nodes` are theirs."""

    ports: tuple[str, str]
    nodes: tuple[str, str]
    queue: str = ""

    @staticmethod
    def of(hop: Hop, where: Where) -> "Link | None":
        """The link of a hop, or None if both its ports are on one node."""
        source, target = where[owner_of(hop.source)], where[owner_of(hop.target)]
        if source == target:
            return None
        if hop.source <= hop.target:
            return Link((hop.source, hop.target), (source, target), hop.queue)
        return Link((hop.target, hop.source), (target, source), hop.queue)


def links_of(graph: Mapping[str, Any], where: Where) -> list[Link]:
    """The links that a graph needs, in order and each once.

    Raises:
        CannotCut: a rule sends by a queue both to its own node and elsewhere.
    """
    found: set[Link] = set()
    for rule in rules_of(graph):
        links = [Link.of(hop, where) for hop in hops_of_rule(rule)]
        found |= {link for link in links if link is not None}
        if queue_of(rule) and None in links and any(links):
            raise CannotCut(
                f"flow-rules: {rule['id']}: sends by a queue to ports of several nodes; make it "
                f"two rules, or pin the ports to one node"
            )
    return sorted(found)


def cut(
    graph: Mapping[str, Any],
    where: Where,
    vnis: Mapping[Link, int],
    addresses: Mapping[str, str | None],
) -> dict[str, Document]:
    """By node, the document of its part.

    Args:
        graph: the NF-FG (the object `forwarding-graph`), checked.
        where: the node of each owner.
        vnis: of each of `links_of(graph, where)`.
        addresses: of the tunnels, by node.

    Raises:
        CannotCut: a link ends at a node without a tunnel address.
    """
    parts: dict[str, Document] = {}
    for node in sorted(set(where.values())):
        parts[node] = _Part(graph, where, vnis, addresses, node).document()
    return parts


def digest(document: Mapping[str, Any]) -> str:
    """The same of equal documents, whatever the order of their keys."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class _Part:
    def __init__(
        self,
        graph: Mapping[str, Any],
        where: Where,
        vnis: Mapping[Link, int],
        addresses: Mapping[str, str | None],
        node: str,
    ) -> None:
        self.graph, self.where, self.vnis, self.node = graph, where, vnis, node
        self.addresses = addresses

    def document(self) -> Document:
        graph = {
            key: value
            for key, value in self.graph.items()
            if key not in ("VNFs", "end-points", "big-switch")
        }
        ends = [e for e in self.graph.get("end-points", []) if self._here(f"endpoint:{e['id']}")]
        switch = {**self.graph.get("big-switch", {}), "flow-rules": self._rules()}
        return {
            "forwarding-graph": {
                **graph,
                "VNFs": [v for v in self.graph.get("VNFs", []) if self._here(f"vnf:{v['id']}")],
                "end-points": ends + [self._end(link) for link in self._links()],
                "big-switch": switch,
            }
        }

    def _here(self, owner: str) -> bool:
        return self.where[owner] == self.node

    def _links(self) -> list[Link]:
        return sorted(link for link in self.vnis if self.node in link.nodes)

    def _end(self, link: Link) -> dict[str, Any]:
        (other,) = (node for node in link.nodes if node != self.node)
        local, remote = self.addresses.get(self.node), self.addresses.get(other)
        for name, address in ((self.node, local), (other, remote)):
            if not address:
                raise CannotCut(
                    f"{link.ports[0]} to {link.ports[1]}: node {name} has no tunnelAddress; give "
                    f"it one, or keep both ports on one node"
                )
        tunnel = {"local-ip": local, "remote-ip": remote, "vni": str(self.vnis[link])}
        return {"id": link_name(self.vnis[link]), "type": "vxlan", "vxlan": tunnel}

    def _rules(self) -> list[dict[str, Any]]:
        own = [
            self._sent(rule)
            for rule in rules_of(self.graph)
            if self._here(owner_of(str(rule["match"]["port_in"])))
        ]
        return own + self._received()

    def _sent(self, rule: dict[str, Any]) -> dict[str, Any]:
        """A rule of this node, with links in the place of ports elsewhere."""
        hops = {hop.target: hop for hop in hops_of_rule(rule)}
        elsewhere = {port: link for port, hop in hops.items() if (link := Link.of(hop, self.where))}
        if not elsewhere:
            return rule
        actions = []
        for action in rule["actions"]:
            if "output_to_queue" in action:
                continue  # the queue is at the far port: the rule there has it
            actions.append(_renamed(action, {p: self._port(at) for p, at in elsewhere.items()}))
        return {**rule, "actions": actions}

    def _port(self, link: Link) -> str:
        return f"endpoint:{link_name(self.vnis[link])}"

    def _received(self) -> list[dict[str, Any]]:
        """For each link on which something comes, the rule that takes it to its port."""
        coming: dict[Link, str] = {}
        for rule in rules_of(self.graph):
            for hop in hops_of_rule(rule):
                link = Link.of(hop, self.where)
                if link is not None and self._here(owner_of(hop.target)):
                    coming[link] = hop.target
        made = []
        for link, target in sorted(coming.items()):
            actions = [{"output_to_port": target}]
            if link.queue:
                actions.append({"output_to_queue": link.queue})
            name, match = link_name(self.vnis[link]), {"port_in": self._port(link)}
            made.append({"id": name, "priority": 1, "match": match, "actions": actions})
        return made


def link_name(vni: int) -> str:
    """The identifier of a link's end-points and rules."""
    return f"{LINK_PREFIX}{vni}"


def _renamed(action: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    if not outputs_of(action):
        return action
    if "output_to_port" in action:
        port = str(action["output_to_port"])
        return {"output_to_port": names.get(port, port)}
    ports: list[Any] = []
    for one in action["output_to_one_of"]:
        if isinstance(one, dict):
            ports.append({**one, "port": names.get(str(one["port"]), one["port"])})
        else:
            ports.append(names.get(str(one), one))
    return {"output_to_one_of": ports}
