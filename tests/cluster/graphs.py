# SPDX-License-Identifier: Apache-2.0
"""Random graphs for hypothesis, and what a graph does to a packet."""

from typing import Any

from hypothesis import strategies as st

from headrace.cluster.cutting.hops import outputs_of, owner_of, queue_of

NODES = ("n1", "n2", "n3", "n4")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """An NF-FG with any rules between any ports, also several outputs, groups and queues."""
    vnfs: list[dict[str, Any]] = [
        {"id": f"v{n}", "ports": [{"id": f"port:{p}"} for p in range(draw(st.integers(1, 3)))]}
        for n in range(draw(st.integers(0, 4)))
    ]
    ends = [
        {"id": f"e{n}", "type": "interface", "interface": {"if-name": f"p{n}"}}
        for n in range(draw(st.integers(1, 3)))
    ]
    ports = [f"endpoint:{end['id']}" for end in ends]
    ports += [f"vnf:{vnf['id']}:{port['id']}" for vnf in vnfs for port in vnf["ports"]]
    port = st.sampled_from(ports)
    rules = []
    for number in range(draw(st.integers(0, 10))):
        match: dict[str, Any] = {"port_in": draw(port)}
        if draw(st.booleans()):
            match["vlan_id"] = str(draw(st.integers(1, 3)))
        actions: list[dict[str, Any]] = []
        if draw(st.booleans()):
            actions.append({"set_ip_tos": str(draw(st.integers(0, 3)))})
        kind = draw(st.sampled_from(["one", "one", "several", "group", "drop", "queue"]))
        if kind == "drop":
            actions.append({"drop": True})
        elif kind == "group":
            chosen: list[Any] = draw(st.lists(port, min_size=1, max_size=3, unique=True))
            chosen[0] = {"port": chosen[0], "weight": draw(st.integers(1, 3))}
            actions.append({"output_to_one_of": chosen})
        else:
            most = 3 if kind == "several" else 1
            for target in draw(st.lists(port, min_size=1, max_size=most, unique=True)):
                actions.append({"output_to_port": target})
            if kind == "queue":
                actions.append({"output_to_queue": draw(st.sampled_from(["gold", "silver"]))})
        priority = draw(st.integers(0, 3))
        rules.append({"id": f"r{number}", "priority": priority, "match": match, "actions": actions})
    return {
        "name": "random",
        "VNFs": vnfs,
        "end-points": ends,
        "big-switch": {"queues": [{"id": "gold"}, {"id": "silver"}], "flow-rules": rules},
    }


def places(graph: dict[str, Any]) -> st.SearchStrategy[dict[str, str]]:
    """Any node for each owner."""
    owners = [f"endpoint:{end['id']}" for end in graph["end-points"]]
    owners += [f"vnf:{vnf['id']}" for vnf in graph["VNFs"]]
    return st.fixed_dictionaries({owner: st.sampled_from(NODES) for owner in owners})


Emission = tuple[str, str, tuple[str, ...]]
"""Where packets leave: the port, its queue, and the changes of headers on the way."""


def emissions(rule: dict[str, Any]) -> list[tuple[str, str]]:
    """Ports to which a rule sends, with the weight in a group."""
    found = []
    for action in rule["actions"]:
        if "output_to_port" in action:
            found.append((str(action["output_to_port"]), ""))
        else:
            for one in action.get("output_to_one_of", []):
                weight = str(one.get("weight", 1)) if isinstance(one, dict) else "1"
                port = str(one["port"]) if isinstance(one, dict) else str(one)
                found.append((port, weight))
    return found


def behaviour(rules: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """What every rule does, by the rule: match, priority, changes, ports with queue and weight."""
    found = set()
    for rule in rules:
        changes = tuple(
            sorted(
                str(a) for a in rule["actions"] if not outputs_of(a) and "output_to_queue" not in a
            )
        )
        match = tuple(sorted(rule["match"].items()))
        ports = tuple(sorted((*one, queue_of(rule)) for one in emissions(rule)))
        found.add((rule["id"], rule["priority"], match, changes, ports))
    return found


def behaviour_of_parts(parts: dict[str, dict[str, Any]]) -> set[tuple[Any, ...]]:
    """The same of parts: a packet that is sent into a tunnel comes out at its other end.

    Written without headrace.cluster.cutting.join: tunnels are found by addresses and VNI, as
    packets do.
    """
    tunnels: dict[tuple[str, str, str], tuple[str, str]] = {}
    local: dict[tuple[str, str], dict[str, str]] = {}
    for node, part in parts.items():
        for end in part["forwarding-graph"]["end-points"]:
            if "vxlan" in end:
                about = end["vxlan"]
                key = about["local-ip"], about["remote-ip"], about["vni"]
                assert key not in tunnels, "two tunnels of one key"
                tunnels[key] = node, f"endpoint:{end['id']}"
                local[node, f"endpoint:{end['id']}"] = about
    found = set()
    for node, part in parts.items():
        rules = part["forwarding-graph"]["big-switch"]["flow-rules"]
        names = {owner_of(rule["match"]["port_in"]) for rule in rules}
        assert all(_owned(name, part) for name in names)
        for rule in rules:
            if (node, rule["match"]["port_in"]) in local:
                continue
            changes = tuple(
                sorted(
                    str(a)
                    for a in rule["actions"]
                    if not outputs_of(a) and "output_to_queue" not in a
                )
            )
            ports = []
            for port, weight in emissions(rule):
                if (node, port) not in local:
                    assert _owned(owner_of(port), part), f"{port} is not on {node}"
                    ports.append((port, weight, queue_of(rule)))
                    continue
                about = local[node, port]
                far, arrives = tunnels[about["remote-ip"], about["local-ip"], about["vni"]]
                (taken,) = (
                    r
                    for r in parts[far]["forwarding-graph"]["big-switch"]["flow-rules"]
                    if r["match"] == {"port_in": arrives}
                )
                ((target, _),) = emissions(taken)
                assert _owned(owner_of(target), parts[far])
                ports.append((target, weight, queue_of(taken)))
            match = tuple(sorted(rule["match"].items()))
            found.add((rule["id"], rule["priority"], match, changes, tuple(sorted(ports))))
    return found


def _owned(owner: str, part: dict[str, Any]) -> bool:
    kind, _, name = owner.partition(":")
    listed = part["forwarding-graph"]["VNFs" if kind == "vnf" else "end-points"]
    return any(one["id"] == name for one in listed)
