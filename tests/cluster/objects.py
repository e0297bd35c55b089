# SPDX-License-Identifier: Apache-2.0
"""Objects of the custom resources that tests share."""

from typing import Any


def chain_graph(length: int = 4, template: str = "pass") -> dict[str, Any]:
    """An NF-FG: a chain of VNFs between two physical ports, in both directions."""
    hops = ["endpoint:in"]
    for number in range(length):
        hops += [f"vnf:v{number}:port:0", f"vnf:v{number}:port:1"]
    hops.append("endpoint:out")
    rules: list[dict[str, Any]] = []
    for at in range(0, len(hops), 2):
        for source, target in ((hops[at], hops[at + 1]), (hops[at + 1], hops[at])):
            rules.append(
                {
                    "id": str(len(rules) + 1),
                    "priority": 10,
                    "match": {"port_in": source},
                    "actions": [{"output_to_port": target}],
                }
            )
    return {
        "name": "chain",
        "VNFs": [
            {
                "id": f"v{number}",
                "vnf_template": template,
                "ports": [{"id": "port:0"}, {"id": "port:1"}],
            }
            for number in range(length)
        ],
        "end-points": [
            {"id": "in", "type": "interface", "interface": {"if-name": "p0"}},
            {"id": "out", "type": "interface", "interface": {"if-name": "p0"}},
        ],
        "big-switch": {"flow-rules": rules},
    }


def service_graph(name: str = "chain", length: int = 4, **spec: Any) -> dict[str, Any]:
    """A ServiceGraph of a chain with its ends on the nodes n1 and n3."""
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "ServiceGraph",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "forwarding-graph": chain_graph(length),
            "demand": {"pps": 10_000, "frameBytes": 512},
            "placement": "mixed",
            "constraints": {
                "pinned": [{"endPoint": "in", "node": "n1"}, {"endPoint": "out", "node": "n3"}]
            },
            **spec,
        },
    }


def headrace_node(name: str, number: int = 1, **spec: Any) -> dict[str, Any]:
    """A HeadraceNode."""
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "HeadraceNode",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {
            "address": f"https://192.0.2.{number}:8443",
            "tunnelAddress": f"198.51.100.{number}",
            "resources": {
                "cores": 4, "switchCores": 1, "ghz": 2.5, "memoryMb": 8192, "linkGbps": 10,
            },
            "model": {"entry": 120, "visit": {"vhost-user": 260}, "perByte": 0.08, "hopUs": 6},
            "prices": {"node": 1.0},
            "tokenSecret": {"name": f"{name}-token", "namespace": "headrace"},
            **spec,
        },
    }  # fmt: skip
