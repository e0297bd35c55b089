# SPDX-License-Identifier: Apache-2.0
"""Nodes and graphs of a simulation, by a seed: demands as those of headrace.placement.demands."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.cluster.resources import Graph, GraphSpec, NodeSpec
from headrace.placement import demands

LIFETIME_SIGMA = 1.0


@dataclass(frozen=True)
class Setting:
    """What is simulated; times in seconds.

    Attributes:
        graphs: that come in all, evenly over `hours`; `lifetime_s`: their mean.
        racks: over which the nodes are divided.
        failures: of racks, each for `outage_s`.
        pinned: share of graphs with both ends pinned to random nodes.
        probe_s: between two probes of a node; calls: at once in all.
    """

    nodes: int = 1000
    racks: int = 50
    graphs: int = 10_000
    hours: float = 2.0
    lifetime_s: float = 1800.0
    failures: int = 6
    outage_s: float = 300.0
    pinned: float = 0.3
    longest: int = 8
    probe_s: float = 2.0
    calls: int = 256
    seed: int = 1


@dataclass(frozen=True)
class Visit:
    """A graph, when it comes and when it goes."""

    comes: float
    goes: float
    graph: Graph


def nodes(setting: Setting) -> dict[str, NodeSpec]:
    """The nodes, of the three types of headrace.placement.demands."""
    random = np.random.default_rng([setting.seed, 1])
    names = list(demands.TYPES)
    shares = np.array([demands.SHARES[name] for name in names])
    made = {}
    for number in range(setting.nodes):
        kind = demands.TYPES[names[int(random.choice(len(names), p=shares))]]
        cycles = kind["cycles"]
        spec = {
            "address": f"https://node-{number}:8443",
            "tunnelAddress": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
            "rack": f"rack-{number % setting.racks}",
            "resources": {
                "cores": kind["cores"],
                "switchCores": kind["switch_cores"],
                "ghz": kind["ghz"],
                "memoryMb": kind["memory_mb"],
                "linkGbps": kind["link_gbps"],
            },
            "model": {
                "entry": cycles["entry"],
                "visit": cycles["visit"],
                "perByte": cycles["per_byte"],
                "hopUs": kind["hop_us"],
            },
            "prices": {"node": kind["price"]},
        }
        made[f"node-{number}"] = NodeSpec.model_validate(spec)
    return made


def visits(setting: Setting) -> list[Visit]:
    """The graphs in the order in which they come."""
    random = np.random.default_rng([setting.seed, 2])
    comes = np.sort(random.uniform(0, 3600 * setting.hours, setting.graphs))
    mean = np.log(setting.lifetime_s) - LIFETIME_SIGMA**2 / 2
    stays = random.lognormal(mean, LIFETIME_SIGMA, setting.graphs)
    functions = {
        name: {
            "cores": one["cores"],
            "cycles": one["cycles"],
            "memoryMb": one["memory_mb"],
            "latencyUs": one["latency_us"],
        }
        for name, one in demands.FUNCTIONS.items()
    }
    found = []
    for number in range(setting.graphs):
        chain = demands.chain(random, f"g{number}", 1, setting.longest)
        mode = str(random.choice(["mixed", "gather", "distribute"], p=[0.8, 0.1, 0.1]))
        constraints: dict[str, Any] = {}
        if random.random() < setting.pinned:
            ends = random.integers(setting.nodes, size=2)
            constraints["pinned"] = [
                {"endPoint": end, "node": f"node-{node}"}
                for end, node in zip(("in", "out"), ends, strict=True)
            ]
        spec = GraphSpec.model_validate(
            {
                "forwarding-graph": _chain(chain["vnfs"]),
                "demand": {"pps": 1000 * chain["kpps"], "frameBytes": chain["bytes"]},
                "placement": mode,
                "functions": functions,
                "constraints": constraints,
            }
        )
        name = f"g{number}"
        graph = Graph(uid=name, namespace="simulation", name=name, generation=1, spec=spec)
        at = float(comes[number])
        found.append(Visit(at, at + float(stays[number]), graph))
    return found


def _chain(functions: list[str]) -> dict[str, Any]:
    """An NF-FG: these functions between two ends, in both directions."""
    hops = ["endpoint:in"]
    for number in range(len(functions)):
        hops += [f"vnf:v{number}:port:0", f"vnf:v{number}:port:1"]
    hops.append("endpoint:out")
    rules: list[dict[str, Any]] = []
    for at in range(0, len(hops), 2):
        for source, target in ((hops[at], hops[at + 1]), (hops[at + 1], hops[at])):
            match, actions = {"port_in": source}, [{"output_to_port": target}]
            rules.append({"id": str(len(rules)), "priority": 1, "match": match, "actions": actions})
    ports = [{"id": "port:0"}, {"id": "port:1"}]
    ends = [
        {"id": end, "type": "host-stack", "host-stack": {"configuration": "DHCP"}}
        for end in ("in", "out")
    ]
    return {
        "VNFs": [
            {"id": f"v{number}", "vnf_template": name, "ports": ports}
            for number, name in enumerate(functions)
        ],
        "end-points": ends,
        "big-switch": {"flow-rules": rules},
    }


@dataclass(frozen=True)
class Outage:
    """A rack that is away from `begins` to `ends`."""

    rack: str
    begins: float
    ends: float


def outages(setting: Setting) -> list[Outage]:
    """The failures, one after another, in the middle of the run."""
    random = np.random.default_rng([setting.seed, 3])
    span = 3600 * setting.hours
    found = []
    for number in range(setting.failures):
        begins = span * (0.3 + 0.6 * number / max(1, setting.failures))
        rack = f"rack-{int(random.integers(setting.racks))}"
        found.append(Outage(rack, begins, begins + setting.outage_s))
    return found
