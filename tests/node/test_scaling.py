# SPDX-License-Identifier: Apache-2.0
"""VNFs that scale: what a graph becomes with replicas, and when there are more or fewer."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.engines.base import VnfSpec
from headrace.node.config import from_dict
from headrace.node.errors import GraphRefused
from headrace.node.events import Event
from headrace.node.node import Node
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.replicas import Replicas, Scaling
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from headrace.node.rest.metrics import exposition
from headrace.node.scaling import Scaler, VnfLoad
from tests.node import graphs
from tests.node.fakes import FakeDriver, FakeEngine, World
from tests.node.surroundings import surroundings

SCALING: dict[str, Any] = {
    "max-replicas": 3,
    "up": 0.8,
    "down": 0.3,
    "for-s": 2,
    "cool-down-s": 5,
    "quiet-s": 4,
}


def scaled(**changes: Any) -> dict[str, Any]:
    document = graphs.chain("pass", 1)
    document["forwarding-graph"]["VNFs"][0]["scaling"] = {**SCALING, **changes}
    return document


def plan(
    replicas: dict[str, Replicas] | None = None,
    previous: Plan = EMPTY_PLAN,
    keeps: bool = True,
    **changes: Any,
) -> Plan:
    node = surroundings()
    capabilities = node.capabilities.model_copy(update={"keeps_flows": keeps})
    graph, _ = parse(scaled(**changes))
    return make_plan(graph, "g", 1, replace(node, capabilities=capabilities), previous, replicas)


def buckets(found: Plan, label: str) -> list[tuple[str, int]]:
    """Where each of the rules of this label sends flows, and with which weights."""
    selects = [rule.select for rule in found.rules() if rule.label == label]
    return [
        (str(bucket.actions[-1].port), bucket.weight)  # type: ignore[union-attr]
        for select in selects
        if select is not None
        for bucket in select.buckets
    ]


def test_one_replica_is_distributed_to_already_so_that_its_flows_are_remembered() -> None:
    found = plan()
    assert [vnf.vnf for vnf in found.vnfs()] == ["v0"]
    assert found.replicas == {"v0": Replicas(serving=1)}
    assert [weight for _, weight in buckets(found, "g/r0")] == [1]


def test_replicas_have_ports_and_rules_of_their_own_and_the_first_stays_as_it_is() -> None:
    first = plan()
    more = plan({"v0": Replicas(serving=2, draining=1)}, first)
    assert [vnf.vnf for vnf in more.vnfs()] == ["v0", "v0~2", "v0~3"]
    assert more.vnfs()[0] == first.vnfs()[0]
    assert [weight for _, weight in buckets(more, "g/r0")] == [1, 1, 0]
    assert buckets(more, "g/r0")[:1] == buckets(first, "g/r0")
    assert len({port for port, _ in buckets(more, "g/r0")}) == 3
    out = [rule.in_port for rule in more.rules() if rule.label.startswith("g/r2")]
    assert len(set(out)) == 3
    kept = {rule.identity for rule in first.rules()}
    assert kept <= {rule.identity for rule in more.rules()}
    assert Plan.model_validate_json(more.model_dump_json()) == more


def test_both_directions_go_to_the_same_replica() -> None:
    """The groups before either port of a VNF are a pair, which other VNFs have no part in."""
    more = plan({"v0": Replicas(serving=2)})
    pairs = {rule.label: rule.select.pair for rule in more.rules() if rule.select is not None}
    assert set(pairs) == {"g/r0", "g/r3"}
    assert len(set(pairs.values())) == 1 and 0 not in pairs.values()


def test_a_port_that_joins_is_served_before_flows_are_sent_to_it() -> None:
    more = plan({"v0": Replicas(serving=2)})
    for lsi in {rule.lsi for rule in more.rules()}:
        distribute = [rule.select is not None for rule in more.rules() if rule.lsi == lsi]
        assert distribute == sorted(distribute)


def test_an_update_of_the_graph_keeps_its_replicas_within_the_new_limits() -> None:
    before = plan({"v0": Replicas(serving=3)})
    assert plan(None, before).replicas == {"v0": Replicas(serving=3)}
    limits: dict[str, Any] = {"max-replicas": 2}
    fewer = plan(None, before, **limits)
    assert fewer.replicas == {"v0": Replicas(serving=2, draining=1)}


def test_a_switch_that_does_not_keep_flows_serves_only_stateless_vnfs() -> None:
    with pytest.raises(GraphRefused, match=r"VNFs\[0\].scaling: .* does not keep flows"):
        plan(keeps=False)
    assert plan(keeps=False, stateless=True).vnfs()


def test_an_output_to_a_scaled_vnf_is_the_only_one() -> None:
    document = scaled()
    rules = document["forwarding-graph"]["big-switch"]["flow-rules"]
    rules[0]["actions"].append({"output_to_port": "endpoint:out"})
    graph, _ = parse(document)
    node = surroundings()
    capabilities = node.capabilities.model_copy(update={"keeps_flows": True})
    with pytest.raises(GraphRefused, match="is the only output of a rule"):
        make_plan(graph, "g", 1, replace(node, capabilities=capabilities))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min-replicas": 4}, "less than min"),
        ({"down": 0.9}, "down must be below up"),
        ({"max-replicas": 99}, "less than or equal to 16"),
        ({"upp": 1}, "upp"),
    ],
)
def test_wrong_limits_are_refused_with_their_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphRefused, match=said) as found:
        parse(scaled(**change))
    assert "VNFs[0].scaling" in str(found.value)


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 6),
)
def test_replicas_keep_to_limits_and_cool_down(
    loads: list[float], least: int, most: int, cool_down: int
) -> None:
    try:
        scaling = Scaling(
            **{"min-replicas": least, "max-replicas": most, "for-s": 1, "quiet-s": 3},
            **{"cool-down-s": cool_down},
        )
    except ValidationError:
        return
    known, replicas, changes = VnfLoad(), Replicas(serving=least), list[int]()
    for now, load in enumerate(loads):
        known.note(scaling, load, now)
        if replicas.draining and known.drains_since is None:
            known.drains_since = now
        wish = known.wish(scaling, replicas, now)
        assert least <= wish.serving <= most and wish.draining >= 0
        assert abs(wish.serving - replicas.serving) <= 1
        if wish.serving > replicas.serving:
            assert load >= scaling.up
        elif wish.serving < replicas.serving:
            # What it had is not cut off.
            assert load <= scaling.down and wish.all == replicas.all
        if wish.serving != replicas.serving:
            changes.append(now)
            known.changed, known.above, known.below = now, None, None
        replicas = wish
    assert all(b - a >= cool_down for a, b in pairwise(changes))


class Worker(FakeEngine):
    """VNFs with a load that the test sets; it grows with time."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.now = 0.0
        self.load: dict[str, float] = {}
        self.spent: dict[str, list[float]] = {}

    def advance(self) -> None:
        self.now += 1.0
        for held in self.world.read()["vnfs"].values():
            load = self.load.get(held["vnf"], 0.0)
            spent = self.spent.setdefault(held["vnf"], [0.0, 0.0, 0.0])
            for at, more in enumerate((load, 1.0, 1000 * load)):
                spent[at] += more

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        busy, whole, _ = self.spent[vnf.vnf]
        return {"busy_cycles": busy, "idle_cycles": whole - busy, "packets": 0}

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        return {"ports": {"0": {"rx_packets": self.spent[vnf.vnf][2]}}}


async def test_load_brings_replicas_and_takes_them_back(rundir: Path) -> None:
    world = World(rundir / "world.json")
    engine, driver = Worker(world), FakeDriver(world)
    driver.capabilities = driver.capabilities.model_copy(update={"keeps_flows": True})
    config = from_dict({"oversubscribe": True, "memory_mb": 4096})
    node = Node(config, rundir, driver, {"process": engine})
    await node.start()
    node.scaler = scaler = Scaler(node.graphs, node.engines, node.events, lambda: engine.now)
    told: list[Event] = []
    node.events.call(told.append)
    await node.graphs.create("g", scaled())

    async def seconds(number: int) -> Replicas:
        for _ in range(number):
            engine.advance()
            await scaler.look()
        return node.graphs.record("g").plan.replicas["v0"]

    assert await seconds(5) == Replicas(serving=1)
    engine.load = {"v0": 0.9}
    assert await seconds(2) == Replicas(serving=1)  # not yet for long enough
    assert await seconds(2) == Replicas(serving=2)
    assert set(world.read()["vnfs"]) == {vnf.name for vnf in node.graphs.holdings.vnfs()}
    engine.load = {"v0": 0.9, "v0~2": 0.9}
    assert await seconds(3) == Replicas(serving=2)  # cools down
    assert await seconds(5) == Replicas(serving=3)
    engine.load["v0~3"] = 0.9
    assert await seconds(20) == Replicas(serving=3)  # its limit
    text, _ = await exposition(node, lambda graph: True)
    assert b'headrace_vnf_replicas{graph="g",state="serving",vnf="v0"} 3.0' in text
    assert b'headrace_vnf_scalings_total{direction="up",graph="g",vnf="v0"} 2.0' in text
    engine.load = {"v0": 0.1, "v0~2": 0.1, "v0~3": 0.1}
    assert await seconds(9) == Replicas(serving=1, draining=2)  # flows still come to both
    assert await seconds(20) == Replicas(serving=1, draining=2)
    engine.load = {"v0": 0.9}
    assert await seconds(3) == Replicas(serving=2, draining=1)  # one is taken back at once
    engine.load = {"v0": 0.1}
    assert await seconds(40) == Replicas(serving=1)
    assert len(world.read()["vnfs"]) == 1
    kinds = [event.kind.value for event in told if event.kind.value.startswith("vnf-")]
    assert set(kinds) == {"vnf-scaled"} and len(kinds) >= 6
    assert not [event for event in told if event.kind.value == "graph-failed"]
    node.store.close()


async def test_what_does_not_fit_is_refused_and_tried_again_later(rundir: Path) -> None:
    world = World(rundir / "world.json")
    engine, driver = Worker(world), FakeDriver(world)
    driver.capabilities = driver.capabilities.model_copy(update={"keeps_flows": True})
    config = from_dict({"oversubscribe": True, "memory_mb": 400, "switch_memory_mb": 256})
    node = Node(config, rundir, driver, {"process": engine})
    await node.start()
    scaler = Scaler(node.graphs, node.engines, node.events, lambda: engine.now)
    told: list[Event] = []
    node.events.call(told.append)
    await node.graphs.create("g", scaled(**{"max-replicas": 16}))
    engine.load = {f"v0~{number}": 0.9 for number in range(2, 17)} | {"v0": 0.9}
    for _ in range(60):
        engine.advance()
        await scaler.look()
    refused = [event for event in told if event.kind.value == "vnf-scaling-refused"]
    assert 2 <= len(refused) <= 12 and "MB of memory" in refused[0].details["message"]
    assert node.graphs.record("g").plan.replicas["v0"].serving < 16
    assert (await exposition(node, lambda graph: True))[0]
    node.store.close()
