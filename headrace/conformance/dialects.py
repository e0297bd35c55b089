# SPDX-License-Identifier: Apache-2.0
"""The generations of the Universal Node's API, one class each, behind one interface.

| name | graphs at | made by | changed by |
|---|---|---|---|
| `headrace` | `/NF-FG/{id}` | PUT or POST, 201 | PUT, 202 (201 in legacy mode) |
| `g2` (July 2017 on) | `/NF-FG/` | POST, 201 with `nffg-uuid` | PUT, 202 |
| `g1` (2016 to July 2017) | `/NF-FG/{id}` | PUT, 201 | PUT, 201 |
| `g0` (until February 2016) | `/graph/{id}` | PUT, 201 | PUT, which adds parts |

The originals have no primitive for resources; their templates and images are in a datastore at an
address of its own. What a generation has not is answered with None, and the test is not applicable.
"""

import copy
from collections.abc import Mapping
from typing import Any

from headrace.conformance.graphs import Graph, inner
from headrace.conformance.rest import Answer, Rest


class Dialect:
    """The newest common form; generations override what they have otherwise.

    Attributes:
        name: for `--dialect`.
        root: where graphs are.
        deployed, modified, deleted, unknown: the codes of success, and for a graph that is not.
        chooses_id: the client names the graph.
        own: it is the Headrace node, with resources, statistics and status of VNFs.
        status: there is a primitive for the status of a graph.
        repository: templates are at the node's address, not only at a datastore's.
    """

    name = "headrace"
    root = "/NF-FG"
    deployed: tuple[int, ...] = (201,)
    modified: tuple[int, ...] = (202, 201)
    deleted: tuple[int, ...] = (204,)
    unknown: tuple[int, ...] = (404,)
    chooses_id = True
    own = True
    status = True
    repository = True

    def place(self, graph: str) -> str:
        """The path of a graph."""
        return f"{self.root}/{graph}"

    def written(self, document: Graph) -> Graph:
        """A document as this generation takes it."""
        return document

    async def deploy(self, rest: Rest, name: str, document: Graph) -> tuple[Answer, str]:
        """Deploys a graph; the answer, and the id that the graph has."""
        return await rest("PUT", self.place(name), self.written(document)), name

    async def modify(self, rest: Rest, name: str, document: Graph) -> Answer:
        """Gives a graph its new version."""
        return await rest("PUT", self.place(name), self.written(document))

    async def delete(self, rest: Rest, name: str) -> Answer:
        """Tears a graph down."""
        return await rest("DELETE", self.place(name))

    def listed(self, answer: Answer) -> list[str] | None:
        """The ids in the answer to GET of all graphs; None if it is not a list of graphs."""
        entries = answer.member("NF-FG")
        if not isinstance(entries, list):
            return None
        names = [entry.get("nffg-uuid") for entry in entries if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str)]

    def read(self, answer: Answer) -> Graph | None:
        """The document in the answer to GET of a graph; None if there is none."""
        found = answer.content
        return found if isinstance(found, dict) and "forwarding-graph" in found else None


class Second(Dialect):
    """G2: the node chooses ids."""

    name = "g2"
    modified = (202,)
    unknown = (405, 404)
    chooses_id = False
    own = False
    repository = False

    async def deploy(self, rest: Rest, name: str, document: Graph) -> tuple[Answer, str]:
        """POST; the id is in the answer."""
        answer = await rest("POST", self.root + "/", self.written(document))
        given = answer.member("nffg-uuid")
        return answer, given if isinstance(given, str) else ""


class First(Dialect):
    """G1: PUT makes and changes, always 201."""

    name = "g1"
    modified = (201,)
    unknown = (404, 405)
    own = False
    repository = False


class Zeroth(Dialect):
    """G0: `flow-graph` documents."""

    name = "g0"
    root = "/graph"
    modified = (201,)
    unknown = (404, 405)
    own = False
    status = False
    repository = False

    def written(self, document: Graph) -> Graph:
        """The same graph as a `flow-graph`: end-points are ports in rules, one action a rule."""
        return {"flow-graph": _flow_graph(inner(document))}

    def listed(self, answer: Answer) -> list[str] | None:
        """G0 has no list of graphs."""
        return None

    def read(self, answer: Answer) -> Graph | None:
        """A `flow-graph` as it is."""
        found = answer.content
        return found if isinstance(found, dict) and "flow-graph" in found else None


_MATCHES: Mapping[str, str] = {
    "ether_type": "ethertype",
    "source_mac": "eth_src",
    "dest_mac": "eth_dst",
    "protocol": "ip_proto",
    "source_ip": "ipv4_src",
    "dest_ip": "ipv4_dst",
}


def _flow_graph(graph: Graph) -> Graph:
    points = {point["id"]: point for point in graph["end-points"]}
    types = {vnf["id"]: vnf["name"] for vnf in graph["VNFs"]}

    def place(reference: str) -> tuple[str, str, str | None]:
        kind, _, rest = reference.partition(":")
        if kind == "endpoint":
            point = points[rest]
            inside = point[point["type"]]
            return "port", inside["if-name"], inside.get("vlan-id")
        name, _, port = rest.partition(":")
        return "VNF_id", f"{types.get(name, name)}:{int(port.rpartition(':')[2]) + 1}", None

    rules: list[dict[str, Any]] = []
    for rule in graph["big-switch"]["flow-rules"]:
        given = copy.copy(rule["match"])
        kind, name, tag = place(given.pop("port_in"))
        match: dict[str, Any] = {kind: name}
        match |= {_MATCHES.get(key, key): value for key, value in given.items()}
        action: dict[str, Any] = {}
        if tag is not None:
            match["vlan_id"] = tag
            action["vlan"] = {"operation": "pop"}
        for number, each in enumerate(rule["actions"]):
            kind, name, tag = place(each["output_to_port"])
            action = {**action, kind: name} if number == 0 else {kind: name}
            if tag is not None:
                action["vlan"] = {"operation": "push", "vlan_id": tag}
            suffix = f"_{number}" if number else ""
            rules.append(
                {
                    "id": rule["id"] + suffix,
                    "priority": str(rule["priority"]),
                    "match": match,
                    "action": action,
                }
            )
    return {"VNFs": [{"id": name} for name in types.values()], "flow-rules": rules}


DIALECTS: dict[str, Dialect] = {
    each.name: each for each in (Dialect(), Second(), First(), Zeroth())
}


async def dialect_of(rest: Rest) -> Dialect:
    """The generation of a node, by the paths that it has.

    Raises:
        NoAnswer: nothing answers.
        ValueError: it has the paths of none.
    """
    node = await rest.get("/node")
    if node.status == 200 and node.member("switch") is not None:
        return DIALECTS["headrace"]
    graphs = await rest.get("/NF-FG")
    if graphs.status in (200, 401):
        conf = await rest.get("/conf")
        return DIALECTS["g1" if conf.status == 200 else "g2"]
    if (await rest.get("/graph/none")).status in (200, 401, 405):
        return DIALECTS["g0"]
    raise ValueError(f"{rest.url} answers neither /node nor /NF-FG nor /graph: no Universal Node")
