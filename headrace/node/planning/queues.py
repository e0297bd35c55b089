# SPDX-License-Identifier: Apache-2.0
"""A graph's queues and its controller: what rules name, and what the switch gets for it.

A queue of the graph becomes one of each port to which a rule sends by it. Ports are shared by
graphs, so the numbers of queues are the node's. The controller is connected to the graph's own LSI,
whose rules it may change; what enters and leaves the graph is LSI-0's.
"""

import ipaddress

from headrace.node.errors import GraphRefused
from headrace.node.planning.flow_rule_model import TO_CONTROLLER, queue_of
from headrace.node.planning.lowering import Wiring, place_of_rule
from headrace.node.planning.nffg import MAX_QUEUES, ForwardingGraph
from headrace.node.planning.resources import ControllerResource, QueueResource
from headrace.node.planning.surroundings import Surroundings
from headrace.switches.base import QueueSpec


def queue_numbers(graph: ForwardingGraph, number: int) -> dict[str, int]:
    """The numbers in the switch of the queues of the node's graph `number`.

    Raises:
        GraphRefused: a queue is there twice, or a rule names one that is not there.
    """
    queues = [queue.id for queue in graph.big_switch.queues]
    for position, name in enumerate(queues):
        if queues.index(name) != position:
            text = f"big-switch.queues[{position}].id: there are two queues {name!r}"
            raise GraphRefused("flow-rules", text)
    for position, rule in enumerate(graph.big_switch.flow_rules):
        for at, action in enumerate(rule.actions):
            name = str(action.get("output_to_queue", ""))
            if "output_to_queue" in action and name not in queues:
                known = ", ".join(queues) or "none"
                raise GraphRefused(
                    "flow-rules",
                    f"{place_of_rule(position)}.actions[{at}].output_to_queue: there is no queue "
                    f"{name!r} in big-switch.queues; there are: {known}",
                )
    first = number * (MAX_QUEUES + 1) + 1
    return {name: first + position for position, name in enumerate(queues)}


def queues_of(graph: ForwardingGraph, wiring: Wiring) -> list[QueueResource]:
    """The queues of all ports to which rules send by one."""
    models = {queue.id: queue for queue in graph.big_switch.queues}
    if not models:
        return []
    found: dict[str, QueueResource] = {}
    for rule in graph.big_switch.flow_rules:
        for target in rule.targets:
            name = queue_of(target)
            if name is None:
                continue
            outer = wiring.is_outer(target)
            resource = QueueResource(
                lsi=wiring.lsi0 if outer else wiring.lsi,
                queue=QueueSpec(
                    port=wiring.physical(target).port if outer else wiring.own(target),
                    number=wiring.queues[name],
                    min_rate=models[name].min_rate,
                    max_rate=models[name].max_rate,
                ),
            )
            found[resource.key] = resource
    return list(found.values())


def controller_of(graph: ForwardingGraph, lsi: str, node: Surroundings) -> list[ControllerResource]:
    """The graph's controller, if it has one.

    Raises:
        GraphRefused: rules send to one that is not given, or node.yaml does not allow its address.
    """
    address = graph.big_switch.controller
    if address is None:
        for number, rule in enumerate(graph.big_switch.flow_rules):
            if TO_CONTROLLER in rule.targets:
                raise GraphRefused(
                    "flow-rules",
                    f"{place_of_rule(number)}: output_to_controller, and the graph has none; add "
                    f'"controller": "tcp:IP:PORT" to big-switch',
                )
        return []
    where = "big-switch.controller"
    if "controller" not in node.capabilities.actions:
        text = f"{where}: switch {node.switch} cannot connect to a controller of a graph's"
        raise GraphRefused("flow-rules", text)
    host, _, port = address.removeprefix("tcp:").rpartition(":")
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        text = f"{where}: {host!r} is no IP address; write tcp:IP:PORT"
        raise GraphRefused("flow-rules", text) from None
    if not 1 <= int(port) <= 65535:
        raise GraphRefused("flow-rules", f"{where}: {port} is out of range 1 to 65535")
    networks = [ipaddress.ip_network(text) for text in node.config.controllers]
    if not any(found in network for network in networks):
        allowed = ", ".join(node.config.controllers) or "none"
        raise GraphRefused(
            "flow-rules",
            f"{where}: this node lets graphs have controllers in: {allowed} (controllers in "
            f"node.yaml)",
        )
    return [ControllerResource(lsi=lsi, address=address)]
