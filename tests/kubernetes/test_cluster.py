# SPDX-License-Identifier: Apache-2.0
"""Service graphs over three nodes under real parts of Kubernetes, with packets that are counted."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.kubernetes.conftest import GRAPHS, Cluster
from tests.kubernetes.control_plane import Json
from tests.kubernetes.fabric import Node, wait_for
from tests.kubernetes.graphs import chain, filler, tagged
from tests.kubernetes.traffic import Stream, transfer
from tests.support.veth import RawPort

MANY = 100
OCTETS = 20_000_000


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster without graphs, before and after."""
    yield cluster
    cluster.delete_all()
    for node in cluster.fabric.nodes:
        wait_for(f"{node.name} has nothing left", lambda node=node: node.left() == [], 30.0)


def report(test: str, **figures: object) -> None:
    """Prints what was found, for who reads the output (`pytest -s`)."""
    print(f"\n{test}: {json.dumps(figures)}")


def _reaches(one: Node, other: Node) -> bool:
    said = one.host.run("sh", "-c", f"busybox ping -c 1 -W 1 {other.host_address} || true")
    return "1 packets received" in said


def over_three_nodes(cluster: Cluster) -> Json:
    """Deploys a chain of four VNFs for which n1 and n3 have a core each, so n2 carries two.

    Afterwards they have two cores again. Gives its status.
    """
    for node in ("n1", "n3"):
        cluster.deploy(filler(f"filler-{node}", node))
    status = cluster.deploy(chain("chain"))
    by_node = sorted(one["node"] for one in status["vnfs"])
    assert by_node == ["n1", "n2", "n2", "n3"], status
    for node in ("n1", "n3"):
        cluster.api.delete(f"{GRAPHS}/filler-{node}")
    cluster.api.until("the fillers are gone", lambda: len(cluster.api.items(GRAPHS)) == 1)
    return status


def carried(source: RawPort, target: RawPort, tag: int) -> None:
    """Sends numbered frames with a tag until the first comes, then twenty that all have to come."""

    def frame(number: int) -> bytes:
        head = bytes.fromhex("020000000002020000000001") + struct.pack("!HHH", 0x8100, tag, 0x88B5)
        return head + struct.pack("!I", number).ljust(46, b"\0")

    def come(count: int) -> list[bytes]:
        mine = frame(0)[:18]
        return [one[:64] for one in target.receive(count, 1.0) if one.startswith(mine)]

    def begins() -> bool:
        source.send(frame(0))
        return bool(come(1))

    wait_for(f"frames of VLAN {tag} come", begins)
    target.silence(0.2)
    wanted = [frame(number) for number in range(1, 21)]
    for one in wanted:
        source.send(one)
    assert come(20) == wanted


def test_tcp_through_a_chain_over_three_nodes(empty: Cluster) -> None:
    n1, n2, n3 = empty.fabric.nodes
    began = time.monotonic()
    status = over_three_nodes(empty)
    deployed_s = time.monotonic() - began
    wait_for("the hosts reach one another", lambda: _reaches(n1, n3))
    before = [node.packets() for node in (n1, n2, n3)]
    took = transfer((n1.host, n1.host_address), (n3.host, n3.host_address), OCTETS)
    passed = [node.packets() - count for node, count in zip((n1, n2, n3), before, strict=True)]
    # A frame carries at most MTU - 40 octets of TCP, and leaves or enters each node by its tunnels.
    least = OCTETS // 1360
    assert passed[0] >= least and passed[2] >= least and passed[1] >= 2 * least, passed
    report(
        "tcp",
        three_graphs_s=round(deployed_s, 2),
        placed={one["name"]: one["node"] for one in status["vnfs"]},
        mbit_s=round(8 * OCTETS / took / 1e6, 1),
        frames_at_tunnels=passed,
    )


def test_every_packet_is_counted(empty: Cluster) -> None:
    n1, _, n3 = empty.fabric.nodes
    empty.deploy(chain("chain"))
    wait_for("the hosts reach one another", lambda: _reaches(n1, n3))
    with Stream((n1.host, n1.host_address), (n3.host, n3.host_address), rate=200) as stream:
        wait_for("1000 packets are sent", lambda: len(stream.sent) >= 1000)
    assert stream.lost() == 0, f"{stream.lost()} of {len(stream.sent)} did not come"


def _is_steady(stream: Stream, for_s: float = 2.0) -> bool:
    """Whether packets come for so long without a pause of half a second."""
    end = time.monotonic() + for_s
    while stream.flows():
        if time.monotonic() > end:
            return True
        time.sleep(0.02)
    return False


def test_traffic_comes_back_after_a_node_has_died(empty: Cluster) -> None:
    n1, n2, n3 = empty.fabric.nodes
    over_three_nodes(empty)
    wait_for("the hosts reach one another", lambda: _reaches(n1, n3))
    try:
        with Stream((n1.host, n1.host_address), (n3.host, n3.host_address)) as stream:
            wait_for("traffic flows", stream.flows)
            died = time.monotonic()
            n2.die()
            wait_for("traffic has stopped", lambda: not stream.flows())
            wait_for("traffic is back", stream.flows, 120.0)
            back_s = time.monotonic() - died
            wait_for("traffic is back to stay", lambda: _is_steady(stream), 120.0)
        status = empty.ready("chain")
        assert {one["node"] for one in status["vnfs"]} == {"n1", "n3"}
        report(
            "node-killed",
            rate_pps=500,
            silent_s=round(stream.longest_gap(), 3),
            seen_back_s=round(back_s, 3),
            lost=stream.lost(),
            sent=len(stream.sent),
            migrations=status["migrations"],
        )
    finally:
        n2.come_back()
    # Its return moves nothing, and what it had is removed there.
    empty.nodes_ready()
    wait_for("n2 has nothing left", lambda: n2.left() == [], 60.0)
    after = empty.api.get(f"{GRAPHS}/chain")["status"]
    assert (after["vnfs"], after["migrations"]) == (status["vnfs"], status["migrations"])


def test_a_hundred_graphs(empty: Cluster) -> None:
    nodes = ["n1", "n2", "n3"]
    began = time.monotonic()
    for number in range(MANY):
        first, last = nodes[number % 3], nodes[(number + 1) % 3]
        empty.api.create(GRAPHS, tagged(f"g{number}", 100 + number, first, last))

    def ready() -> int:
        return sum(
            any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in body.get("status", {}).get("conditions", [])
            )
            for body in empty.api.items(GRAPHS)
        )

    empty.api.until("all graphs are ready", lambda: ready() == MANY, 400.0)
    deployed_s = time.monotonic() - began
    for number in range(0, MANY, 9):  # some of each pair of nodes, with packets
        near = empty.fabric.node(nodes[number % 3])
        far = empty.fabric.node(nodes[(number + 1) % 3])
        with closing(near.raw_port()) as source, closing(far.raw_port()) as target:
            carried(source, target, 100 + number)
    began = time.monotonic()
    empty.delete_all(400.0)
    report("hundred", deployed_s=round(deployed_s, 1), deleted_s=round(time.monotonic() - began, 1))
    assert empty.api.items(GRAPHS) == []


def test_an_update_loses_no_packet_of_what_stays(empty: Cluster) -> None:
    n1, _, n3 = empty.fabric.nodes
    body = chain("chain", 2)
    empty.deploy(body)
    wait_for("the hosts reach one another", lambda: _reaches(n1, n3))
    graph = body["spec"]["forwarding-graph"]
    with Stream((n1.host, n1.host_address), (n3.host, n3.host_address)) as stream:
        wait_for("traffic flows", stream.flows)
        graph["big-switch"]["flow-rules"].append(
            {
                "id": "guard",
                "priority": 20,
                "match": {"port_in": "endpoint:in", "ether_type": "0x86dd"},
                "actions": [{"drop": True}],
            }
        )
        empty.api.patch(f"{GRAPHS}/chain", {"spec": {"forwarding-graph": graph}})
        generation = empty.api.get(f"{GRAPHS}/chain")["metadata"]["generation"]
        empty.api.until(
            "the update is deployed",
            lambda: (
                empty.condition("chain", "Deployed").get("observedGeneration") == generation
                and empty.condition("chain", "Deployed").get("status") == "True"
            ),
        )
        time.sleep(0.5)
    assert stream.lost() == 0, f"{stream.lost()} of {len(stream.sent)} did not come"


def test_the_api_server_refuses_what_is_no_graph(empty: Cluster) -> None:
    body = chain("wrong")
    body["spec"]["constraints"]["pinned"][0]["endPoint"] = "nowhere"
    with pytest.raises(AssertionError, match="names an end-point that the graph has not"):
        empty.api.create(GRAPHS, body)
    assert empty.api.items(GRAPHS) == []
