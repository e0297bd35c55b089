# SPDX-License-Identifier: Apache-2.0
"""The service graphs of these tests."""

from typing import Any

from tests.cluster.objects import chain_graph

Json = dict[str, Any]


def chain(name: str, length: int = 4, first: str = "n1", last: str = "n3", **spec: Any) -> Json:
    """A chain of VNFs that pass packets, between the hosts of two nodes."""
    graph = chain_graph(length)
    for end in graph["end-points"]:
        end["interface"] = {"if-name": "access"}
    return service_graph(name, graph, first, last, **spec)


def tagged(name: str, tag: int, first: str, last: str) -> Json:
    """A VLAN between the hosts of two nodes, through a VNF that is flows in a switch."""
    graph = chain_graph(1, "flows")
    for end in graph["end-points"]:
        del end["interface"]
        end.update({"type": "vlan", "vlan": {"vlan-id": str(tag), "if-name": "access"}})
    flows = ["table=0,in_port=1,actions=output:2", "table=0,in_port=2,actions=output:1"]
    graph["VNFs"][0]["configuration"] = {"flows": flows}
    functions = {"flows": {"cores": 0, "cycles": 0, "memoryMb": 0, "port": "memif"}}
    return service_graph(name, graph, first, last, functions=functions, demand={"pps": 100})


def filler(name: str, node: str) -> Json:
    """One VNF on a node, between two internal groups: it takes a core and carries nothing."""
    graph = chain_graph(1)
    for number, end in enumerate(graph["end-points"]):
        del end["interface"]
        end.update({"type": "internal", "internal": {"internal-group": f"{name}-{number}"}})
    return service_graph(name, graph, node, node)


def service_graph(name: str, graph: Json, first: str, last: str, **spec: Any) -> Json:
    """A ServiceGraph with its ends on two nodes."""
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "ServiceGraph",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "forwarding-graph": graph,
            "demand": {"pps": 1000, "frameBytes": 512},
            "placement": "mixed",
            "functions": {"pass": {"cores": 1, "memoryMb": 64, "port": "memif"}},
            "constraints": {
                "pinned": [{"endPoint": "in", "node": first}, {"endPoint": "out", "node": last}]
            },
            **spec,
        },
    }
