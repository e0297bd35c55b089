# SPDX-License-Identifier: Apache-2.0
"""What one more VNF costs on a node: the node's price if it comes into use, and the share it takes.

It is the cost by which the controller places graphs (`core/placing.py`): the share of the resource
of which the VNF takes most, times the price of the node, and its cores by their price. The VNF
takes of the switch one entry and one visit (docs/placement.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headrace.cluster.core.fleet import capacity_of, server_type
from headrace.cluster.resources import NodeSpec
from headrace.placement.problem import RESOURCES, Ints, up


@dataclass(frozen=True)
class VnfDemand:
    """One VNF: packets per second, bytes of a frame with FCS, cores, cycles for each packet."""

    pps: float
    frame_bytes: float = 512.0
    cores: float = 1.0
    cycles: float = 0.0
    memory_mb: float = 0.0
    port: str = "vhost-user"


@dataclass(frozen=True)
class NodeState:
    """A node and what is taken of it, in the units of its specification."""

    spec: NodeSpec
    used: Mapping[str, float]
    vnfs: int = 0
    ready: bool = True
    reason: str = ""


@dataclass(frozen=True)
class Score:
    """The cost, or why the VNF can't be there; `passing`: it could be if less was there."""

    cost: float | None
    reason: str = ""
    passing: bool = False


def needs_of(spec: NodeSpec, demand: VnfDemand) -> Ints:
    """What the VNF takes of a node, of the resources of headrace.placement.

    Raises:
        KeyError: the node has no cost of that kind of port.
    """
    model, ghz = spec.model, spec.resources.ghz
    cycles = model.entry + model.visit[demand.port] + 2 * model.per_byte * demand.frame_bytes
    return np.array(
        [
            up(1000 * (demand.cores + demand.pps * demand.cycles / (ghz * 1e9))),
            up(1000 * demand.memory_mb),
            up(demand.pps * cycles / 1000),
            up(8 * demand.pps * demand.frame_bytes),
        ],
        dtype=np.int64,
    )


def score(node: NodeState, demand: VnfDemand) -> Score:
    """The cost of one more VNF on a node."""
    spec = node.spec
    if not node.ready:
        return Score(None, node.reason or "the node is not ready", passing=True)
    if demand.port not in spec.model.visit:
        return Score(None, f"its model has no cost of {demand.port} ports")
    one = server_type(spec)
    capacity, needs = capacity_of(one), needs_of(spec, demand)
    if (needs > capacity).any():
        short = [RESOURCES[k] for k in range(4) if needs[k] > capacity[k]]
        return Score(None, f"it has not the {' and '.join(short)} even when empty")
    free = capacity - _used(node)
    if (needs > free).any():
        short = [RESOURCES[k] for k in range(4) if needs[k] > free[k]]
        return Score(None, f"not enough {' and '.join(short)} left", passing=True)
    share = float((needs / np.maximum(1, capacity)).max())
    cost = one.price * ((0.0 if node.vnfs else 1.0) + share)
    cores = needs[0] / 1000 + needs[2] / (1e6 * one.ghz)
    return Score(cost + one.core_price * float(cores))


def _used(node: NodeState) -> Ints:
    used = node.used
    return np.array(
        [
            up(1000 * used.get("cores", 0.0)),
            up(1000 * used.get("memoryMb", 0.0)),
            up(1e6 * node.spec.resources.ghz * used.get("switchCores", 0.0)),
            up(1e9 * used.get("linkGbps", 0.0)),
        ],
        dtype=np.int64,
    )


def ranks(scores: Mapping[str, Score], most: int) -> dict[str, int]:
    """Costs as integers from 0 (the dearest, or none) to `most` (the cheapest)."""
    costs = {name: one.cost for name, one in scores.items() if one.cost is not None}
    if not costs:
        return dict.fromkeys(scores, 0)
    low, high = min(costs.values()), max(costs.values())
    found = {}
    for name in scores:
        cost = costs.get(name)
        if cost is None:
            found[name] = 0
        elif high == low:
            found[name] = most
        else:
            found[name] = round(most * (high - cost) / (high - low))
    return found
