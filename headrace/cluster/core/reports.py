# SPDX-License-Identifier: Apache-2.0
"""What the status of a graph and of a node says, as conditions of Kubernetes.

A graph has three. `Placed`: the wanted version has nodes. `Deployed`: all parts of the wanted
version are on them. `Ready`: some whole version is on nodes that answer, so it carries traffic.
"""

from dataclasses import dataclass
from typing import Any

from headrace.cluster.core.core import Core
from headrace.cluster.core.deployment import Deployment
from headrace.cluster.core.health import State


@dataclass(frozen=True)
class Condition:
    """One condition; the time of its last change is the writer's to know."""

    type: str
    status: bool | None
    reason: str
    message: str


def graph_conditions(core: Core, found: Deployment) -> list[Condition]:
    """The conditions of a graph."""
    trouble = found.trouble
    wanted = found.layout is not None and not found.undoing
    wanted = wanted and found.layout.generation == found.graph.generation  # type: ignore[union-attr]
    if found.deleted:
        gone = Condition("Ready", False, "Deleting", "its parts are being removed")
        return [gone]
    if wanted and trouble is None:
        placed = Condition("Placed", True, "Placed", "it has nodes")
    elif trouble is not None:
        placed = Condition("Placed", False, trouble.reason, trouble.message)
    else:
        placed = Condition("Placed", None, "Waiting", "it was not placed yet")
    deployed = _deployed(core, found, wanted)
    faults = [f"node {node}: {fault}" for node, fault in sorted(found.faults.items())]
    if faults:
        ready = Condition("Ready", False, "PartFailed", "; ".join(faults))
    elif deployed.status:
        ready = Condition("Ready", True, "Deployed", deployed.message)
    elif found.good is not None and found.good is found.layout and _whole(core, found):
        message = trouble.message if trouble else "the version before carries traffic"
        ready = Condition("Ready", True, "PreviousVersion", message)
    else:
        ready = Condition("Ready", False, deployed.reason, deployed.message)
    return [placed, deployed, ready]


def _whole(core: Core, found: Deployment) -> bool:
    nodes = found.layout.nodes if found.layout is not None else set()
    return found.complete and all(core.health(node).answers for node in nodes)


def _deployed(core: Core, found: Deployment, wanted: bool) -> Condition:
    if wanted and found.layout is not None:
        nodes = sorted(found.layout.nodes)
        if _whole(core, found):
            return Condition("Deployed", True, "Deployed", f"on {', '.join(nodes)}")
        silent = [node for node in nodes if not core.health(node).answers]
        if silent:
            return Condition("Deployed", False, "NodeLost", f"no answer: {', '.join(silent)}")
        missing = [node for node, part in found.layout.parts.items() if not found.has(node, part)]
        return Condition("Deployed", False, "Deploying", f"in progress on {', '.join(missing)}")
    if found.trouble is not None:
        return Condition("Deployed", False, found.trouble.reason, found.trouble.message)
    return Condition("Deployed", False, "Waiting", "it was not placed yet")


def graph_status(core: Core, uid: str) -> dict[str, Any]:
    """The status of a ServiceGraph without its conditions.

    Raises:
        KeyError: there is no such graph.
    """
    found = core.book.deployments[uid]
    where = {} if found.layout is None else found.layout.where
    links = {} if found.layout is None else found.layout.links
    nodes = sorted(set(where.values()))
    return {
        "observedGeneration": found.graph.generation,
        "nodeList": " ".join(nodes),
        "linkCount": len(links),
        "migrations": found.migrations,
        "vnfs": _placed(where, "vnf:"),
        "endPoints": _placed(where, "endpoint:"),
        "links": [
            {
                "vni": vni,
                "ports": list(link.ports),
                "nodes": list(link.nodes),
                **({"queue": link.queue} if link.queue else {}),
            }
            for link, vni in sorted(links.items())
        ],
    }


def _placed(where: dict[str, str], kind: str) -> list[dict[str, str]]:
    return [
        {"name": owner.removeprefix(kind), "node": node}
        for owner, node in where.items()
        if owner.startswith(kind)
    ]


def node_conditions(core: Core, name: str) -> list[Condition]:
    """The conditions of a node: `Ready` is whether it takes new graphs, `Answering` for others.

    Raises:
        KeyError: there is no such node.
    """
    health = core.health(name)
    known = None if health.state is State.NEW else health.state is not State.LOST
    usable = core.fleet.usable(name)
    reason = health.state.value
    message = health.why
    if health.state is State.UP and not usable:
        cordoned = core.fleet.specs[name].unschedulable
        reason = "Unschedulable" if cordoned else "Preparing"
        message = "spec.unschedulable is set" if cordoned else "what it has is being looked at"
    return [
        Condition("Ready", usable, reason, message),
        Condition("Answering", known, health.state.value, health.why),
    ]


def node_status(core: Core, name: str) -> dict[str, Any]:
    """The status of a HeadraceNode without its conditions.

    Raises:
        KeyError: there is no such node.
    """
    graphs = [uid for uid in core.graphs_at(name)]
    vnfs = 0
    for uid in graphs:
        layout = core.book.deployments[uid].layout
        if layout is not None:
            vnfs += sum(n == name and o.startswith("vnf:") for o, n in layout.where.items())
    return {"graphs": len(graphs), "vnfs": vnfs, "used": core.fleet.used_of(name)}
