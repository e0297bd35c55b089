# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.graph import build, streams, vnf_mac
from headrace.results import Shape


def references(graph: dict[str, Any]) -> Iterator[str]:
    for rule in graph["big-switch"]["flow-rules"]:
        yield rule["match"]["port_in"]
        for action in rule["actions"]:
            yield action["output_to_port"]


def walk(graph: dict[str, Any], mac: str) -> list[str]:
    """The VNFs that a frame for `mac` visits from the entry on; VNFs pass frames on unchanged."""
    at, visited = "endpoint:in", list[str]()
    for _ in range(100):
        rule = next(
            rule for rule in graph["big-switch"]["flow-rules"]
            if rule["match"]["port_in"] == at and rule["match"].get("dest_mac", mac) == mac
        )  # fmt: skip
        target = rule["actions"][0]["output_to_port"]
        if target == "endpoint:out":
            return visited
        _, name, label, number = target.split(":")
        visited.append(name)
        at = f"vnf:{name}:{label}:{1 - int(number)}"
    raise AssertionError("a loop")


@given(st.integers(1, 30))
def test_a_chain_visits_every_vnf_in_order(count: int) -> None:
    graph = build("chain", count, "pass", "p0", "p1")["forwarding-graph"]
    assert walk(graph, vnf_mac(0)) == [f"vnf{index}" for index in range(count)]


@given(st.integers(1, 30))
def test_each_parallel_stream_visits_its_own_vnf(count: int) -> None:
    graph = build("parallel", count, "pass", "p0", "p1")["forwarding-graph"]
    macs = [stream["dst_mac"] for stream in streams("parallel", count, "64", 1000, "a", "b")]
    assert [walk(graph, mac) for mac in macs] == [[f"vnf{index}"] for index in range(count)]


@given(st.sampled_from(["chain", "parallel"]), st.integers(1, 10))
def test_every_reference_exists_and_every_port_is_used(shape: Shape, count: int) -> None:
    graph = build(shape, count, "pass", "p0", "p1")["forwarding-graph"]
    there = {f"endpoint:{entry['id']}" for entry in graph["end-points"]}
    there |= {f"vnf:{vnf['id']}:{port['id']}" for vnf in graph["VNFs"] for port in vnf["ports"]}
    assert set(references(graph)) == there
    ids = [rule["id"] for rule in graph["big-switch"]["flow-rules"]]
    assert len(set(ids)) == len(ids)


def test_prefixes_are_distinct_rules_and_cover_the_flows() -> None:
    graph = build("p2p", 0, "", "p0", "p1", prefixes=512)["forwarding-graph"]
    targets = {rule["match"].get("dest_ip") for rule in graph["big-switch"]["flow-rules"]}
    assert len(targets) == 513 and "198.19.255.0/24" in targets


@pytest.mark.parametrize(("shape", "count"), [("p2p", 1), ("chain", 0), ("parallel", -1)])
def test_no_graph_without_sense(shape: Shape, count: int) -> None:
    with pytest.raises(ValueError, match="no graph"):
        build(shape, count, "pass", "p0", "p1")


@given(st.integers(1, 10), st.integers(1, 100_000))
def test_flows_are_divided_without_loss(count: int, flows: int) -> None:
    made = streams("parallel", count, "imix-csit", flows, "a", "b")
    assert sum(stream["flows"] for stream in made) == max(flows, count)
    assert all(stream["size"] == "imix-csit" for stream in made)
    assert streams("p2p", 0, "64", 5, "a", "b")[0]["size"] == 64
