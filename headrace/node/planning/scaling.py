# SPDX-License-Identifier: Apache-2.0
"""VNFs that become several when their load rises, as `scaling` in a graph says.

    "scaling": {"min-replicas": 1, "max-replicas": 4, "up": 0.8, "down": 0.3,
                "for-s": 3, "cool-down-s": 10, "quiet-s": 30, "drain-s": 600}

A graph with such VNFs is rewritten before it is planned: each replica is a VNF of its own (`v`,
`v~2`, `v~3`), what goes to a port of `v` is distributed over the replicas by flows
(`output_to_one_of`, also while there is one replica, so that the switch remembers the flows that
are there when the second comes), and rules on what comes from a port of `v` are there for each. A
replica that is to go gets no new flows (weight 0) and keeps those it has until it is quiet.
"""

from collections.abc import Mapping
from typing import Any

from headrace.node.errors import GraphRefused
from headrace.node.planning.flow_rule_model import FlowRuleModel, WeightedPort
from headrace.node.planning.lowering import place_of_rule
from headrace.node.planning.nffg import MAX_VNFS, ForwardingGraph, VnfModel
from headrace.node.planning.replicas import Replicas, Scaling
from headrace.switches.base import Capabilities


def scaled_vnfs(graph: ForwardingGraph) -> dict[str, Scaling]:
    """The VNFs of a graph that scale, by their ids."""
    return {vnf.id: vnf.scaling for vnf in graph.vnfs if vnf.scaling is not None}


def replica_id(vnf: str, number: int) -> str:
    """The id of replica `number` (from 1) of a VNF."""
    return vnf if number == 1 else f"{vnf}~{number}"


def within(scaling: Scaling, replicas: Replicas | None) -> Replicas:
    """Those of before as far as the limits allow; what is too many drains."""
    before = replicas or Replicas(serving=scaling.min_replicas)
    serving = min(max(before.serving, scaling.min_replicas), scaling.max_replicas)
    return Replicas(serving=serving, draining=max(0, before.all - serving))


def expand(
    graph: ForwardingGraph, replicas: Mapping[str, Replicas], switch: str, has: Capabilities
) -> ForwardingGraph:
    """The graph with all replicas, for planning.

    Raises:
        GraphRefused: the switch cannot keep flows where they are, or a rule sends to such a VNF
            and elsewhere.
    """
    if not replicas:
        return graph
    for number, vnf in enumerate(graph.vnfs):
        if vnf.id in replicas and "select" not in has.actions:
            text = f"VNFs[{number}].scaling: switch {switch} cannot distribute flows"
            raise GraphRefused("scaling", text)
        if vnf.scaling is not None and not vnf.scaling.stateless and not has.keeps_flows:
            raise GraphRefused(
                "scaling",
                f"VNFs[{number}].scaling: switch {switch} does not keep flows at their replica; "
                f'write "stateless": true if they may move',
            )
    vnfs = [copy for vnf in graph.vnfs for copy in _copies(vnf, replicas.get(vnf.id))]
    if len(vnfs) > MAX_VNFS:
        text = f"VNFs: {len(vnfs)} with all replicas; a graph may have {MAX_VNFS}"
        raise GraphRefused("scaling", text)
    rules = [
        copy
        for number, rule in enumerate(graph.big_switch.flow_rules)
        for copy in _rules(rule, place_of_rule(number), replicas)
    ]
    switched = graph.big_switch.model_copy(update={"flow_rules": rules})
    return graph.model_copy(update={"vnfs": vnfs, "big_switch": switched})


def _copies(vnf: VnfModel, replicas: Replicas | None) -> list[VnfModel]:
    numbers = range(1, replicas.all + 1) if replicas else (1,)
    return [vnf.model_copy(update={"id": replica_id(vnf.id, number)}) for number in numbers]


def _port(reference: str, number: int) -> str:
    kind, vnf, rest = reference.split(":", 2)
    return f"{kind}:{replica_id(vnf, number)}:{rest}"


def _vnf_of(reference: str) -> str:
    kind, _, rest = reference.partition(":")
    return rest.partition(":")[0] if kind == "vnf" else ""


def _rules(
    rule: FlowRuleModel, place: str, replicas: Mapping[str, Replicas]
) -> list[FlowRuleModel]:
    """A rule for each replica whose packets it matches, each to all replicas it sends to."""
    targets = [target for _, target in rule.outputs]
    if any(_vnf_of(target) in replicas for target in targets):
        if len([a for a in rule.actions if a.keys() & {"output_to_port", "output_to_one_of"}]) > 1:
            text = f"{place}: an output to a VNF that scales is the only output of a rule"
            raise GraphRefused("flow-rules", text)
        rule = rule.model_copy(update={"actions": [_action(a, replicas) for a in rule.actions]})
    source = rule.match["port_in"]
    pool = replicas.get(_vnf_of(source))
    if pool is None:
        return [rule]
    return [
        rule.model_copy(
            update={
                "id": replica_id(rule.id, number),
                "match": {**rule.match, "port_in": _port(source, number)},
            }
        )
        for number in range(1, pool.all + 1)
    ]


def _action(action: Mapping[str, Any], replicas: Mapping[str, Replicas]) -> dict[str, Any]:
    ((key, value),) = action.items()
    members = [WeightedPort(port=str(value))] if key == "output_to_port" else value
    if key not in ("output_to_port", "output_to_one_of"):
        return dict(action)
    found = []
    for member in members:
        pool = replicas.get(_vnf_of(member.port))
        if pool is None:
            found.append(member)
            continue
        for number in range(1, pool.all + 1):
            weight = member.weight if number <= pool.serving else 0
            # A weight of 0, which no client may write, is a replica that drains.
            made = WeightedPort.model_construct(port=_port(member.port, number), weight=weight)
            # Only where all outputs are those of one VNF is the number of one that of its replica.
            found.append(made.of_pool(_vnf_of(member.port)) if len(members) == 1 else made)
    return {"output_to_one_of": found}
