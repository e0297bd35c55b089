# SPDX-License-Identifier: Apache-2.0
"""Where graphs go: every constraint is kept, by sums that are made anew here."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.core.fleet import Fleet
from headrace.cluster.core.placing import NoPlace, Placed, place
from headrace.cluster.resources import Graph, NodeSpec, graph_of, node_of
from tests.cluster.objects import headrace_node, service_graph

NETWORK_US = 20.0


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, NodeSpec]:
    found = {}
    for number in range(1, draw(st.integers(1, 6)) + 1):
        resources = {
            "cores": draw(st.integers(0, 4)),
            "ghz": draw(st.sampled_from([2.0, 2.5])),
            "memoryMb": draw(st.sampled_from([512, 4096])),
            "linkGbps": draw(st.sampled_from([1, 10])),
        }
        more: dict[str, Any] = {"rack": f"r{number % 2}", "resources": resources}
        if not draw(st.integers(0, 5)):
            more["tunnelAddress"] = None
        body = headrace_node(f"n{number}", number, **more)
        name, spec = node_of(body)
        found[name] = spec
    return found


@st.composite
def wanted(draw: st.DrawFn, nodes: list[str]) -> Graph:
    length = draw(st.integers(0, 4))
    node = st.sampled_from(nodes)
    pinned: list[dict[str, str]] = []
    for end in ("in", "out"):
        if draw(st.booleans()):
            pinned.append({"endPoint": end, "node": draw(node)})
    if length and draw(st.booleans()):
        pinned.append({"vnf": "v0", "node": draw(node)})
    constraints: dict[str, Any] = {"pinned": pinned}
    mode = draw(st.sampled_from(["mixed", "gather", "distribute"]))
    if length > 1 and mode != "gather" and draw(st.booleans()):
        domain = draw(st.sampled_from(["node", "rack"]))
        constraints["antiAffinity"] = [{"vnfs": ["v0", f"v{length - 1}"], "domain": domain}]
    if draw(st.booleans()):
        constraints["nodes"] = draw(st.lists(node, min_size=1, unique=True))
    demand: dict[str, Any] = {"pps": draw(st.sampled_from([1000, 400_000, 2_000_000]))}
    if draw(st.booleans()):
        demand["latencyUs"] = draw(st.sampled_from([20.0, 60.0, 200.0]))
    functions = {"pass": {"cores": 1, "memoryMb": 256, "latencyUs": 5, "cycles": 100}}
    return graph_of(
        service_graph(
            "g", length, placement=mode, constraints=constraints, demand=demand, functions=functions
        )
    )


def _fleet(specs: dict[str, NodeSpec]) -> Fleet:
    fleet = Fleet()
    for name, spec in specs.items():
        fleet.set_node(name, spec)
        fleet.set_usable(name, True)
    return fleet


def _runs(placed: Placed, length: int) -> list[tuple[str, int]]:
    """Node and VNFs of each run of the chain, with its ends."""
    owners = ["endpoint:in", *(f"vnf:v{n}" for n in range(length)), "endpoint:out"]
    runs: list[tuple[str, int]] = []
    for owner in owners:
        node, count = placed.where[owner], int(owner.startswith("vnf:"))
        if runs and runs[-1][0] == node:
            runs[-1] = node, runs[-1][1] + count
        else:
            runs.append((node, count))
    return runs


def _check(specs: dict[str, NodeSpec], graphs: list[tuple[Graph, Placed]]) -> None:
    cores: dict[str, float] = {}
    memory: dict[str, float] = {}
    cycles: dict[str, float] = {}
    bits: dict[str, float] = {}
    for graph, placed in graphs:
        spec, length = graph.spec, len(graph.spec.graph["VNFs"])
        where, demand = placed.where, graph.spec.demand
        for pin in spec.constraints.pinned:
            assert where[pin.owner] == pin.node
        pins = {pin.owner for pin in spec.constraints.pinned}
        if spec.constraints.nodes:
            free = [f"vnf:v{n}" for n in range(length) if f"vnf:v{n}" not in pins]
            assert all(where[owner] in spec.constraints.nodes for owner in free)
        vnfs = [where[f"vnf:v{n}"] for n in range(length)]
        if spec.placement == "distribute":
            assert len(set(vnfs)) == length
        if spec.placement == "gather" and "vnf:v0" not in pins:
            assert len(set(vnfs)) <= 1
        for rule in spec.constraints.anti_affinity:
            there = [where[f"vnf:{name}"] for name in rule.vnfs]
            if rule.domain == "rack":
                there = [specs[node].rack for node in there]
            assert len(set(there)) == len(there)
        runs = _runs(placed, length)
        if len({node for node, _ in runs}) > 1:
            assert all(specs[node].tunnel_address for node, _ in runs)
        took = sum(5 + specs[n].model.hop_us for n in vnfs)
        for node, count in runs:
            model, ghz = specs[node].model, specs[node].resources.ghz
            took += model.hop_us
            one = model.entry + model.per_byte * demand.mean_bytes
            each = model.visit["vhost-user"] + model.per_byte * demand.mean_bytes
            cycles[node] = cycles.get(node, 0) + demand.pps * (one + count * each)
            bits[node] = bits.get(node, 0) + 8 * demand.pps * demand.mean_bytes
            vnf = 1 + demand.pps * 100 / (ghz * 1e9)
            cores[node] = cores.get(node, 0) + count * vnf
            memory[node] = memory.get(node, 0) + count * 256
        if demand.latency_us is not None and len(pins & {"endpoint:in", "endpoint:out"}) == 2:
            took += (len(runs) - 1) * NETWORK_US
            assert took <= demand.latency_us + 1e-6
    for node, about in specs.items():
        has = about.resources
        assert cores.get(node, 0) <= has.cores + 1e-6
        assert memory.get(node, 0) <= has.memory_mb + 1e-6
        assert bits.get(node, 0) <= has.link_gbps * 1e9 + 1
        most = has.ghz * 1e9 * has.switch_cores * about.model.max_load
        assert cycles.get(node, 0) <= most + 1


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_places_keep_every_constraint(data: st.DataObject) -> None:
    specs = data.draw(fleets())
    fleet = _fleet(specs)
    placed: list[tuple[Graph, Placed]] = []
    for number in range(data.draw(st.integers(1, 3))):
        graph = data.draw(wanted(list(specs)))
        try:
            found = place(fleet, graph, network_us=NETWORK_US)
        except NoPlace as error:
            assert str(error)
            continue
        fleet.take(f"g{number}", found.takings)
        placed.append((graph, found))
    _check(specs, placed)
    for number in range(3):
        fleet.release(f"g{number}")
    fleet.refresh()
    assert (fleet.free == fleet.capacity).all() and not fleet.count.any()


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_kept_stays_if_all_of_it_can(data: st.DataObject) -> None:
    """Placing anew with everything kept changes nothing."""
    specs = data.draw(fleets())
    graph = data.draw(wanted(list(specs)))
    fleet = _fleet(specs)
    try:
        before = place(fleet, graph, network_us=NETWORK_US)
    except NoPlace:
        return
    assert place(fleet, graph, before.where, network_us=NETWORK_US).where == before.where


def test_a_chain_fills_what_is_there_before_it_is_cut_more() -> None:
    """n1 and n3 have one core left each: the middle goes to n2 as one run."""
    fleet = Fleet()
    for number, cores in ((1, 1), (2, 2), (3, 1)):
        resources = {"cores": cores, "ghz": 2.5, "memoryMb": 4096, "linkGbps": 10}
        name, spec = node_of(headrace_node(f"n{number}", number, resources=resources))
        fleet.set_node(name, spec)
        fleet.set_usable(name, True)
    where = place(fleet, graph_of(service_graph())).where
    assert [where[f"vnf:v{n}"] for n in range(4)] == ["n1", "n2", "n2", "n3"]


def test_what_is_short_is_named() -> None:
    fleet = _fleet(dict([node_of(headrace_node("n1"))]))
    body = service_graph("g", 1, constraints={}, functions={"pass": {"cores": 9}})
    with pytest.raises(NoPlace, match="no node has the cores of vnf:v0 left"):
        place(fleet, graph_of(body))
    pinned = {"pinned": [{"endPoint": "in", "node": "n7"}]}
    with pytest.raises(NoPlace, match="there is no such HeadraceNode"):
        place(fleet, graph_of(service_graph("g", 1, constraints=pinned)))
    slow = service_graph("g", 1, constraints={}, demand={"pps": 10, "latencyUs": 1})
    with pytest.raises(NoPlace, match="more latency"):
        place(fleet, graph_of(slow))
    fleet.set_usable("n1", False)
    with pytest.raises(NoPlace, match="no node is ready"):
        place(fleet, graph_of(service_graph("g", 1, constraints={})))
