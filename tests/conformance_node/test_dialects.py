# SPDX-License-Identifier: Apache-2.0
"""Nodes of the original generations are tested in their own dialects."""

import httpx
import pytest

from headrace.conformance import registry
from headrace.conformance.case import Verdict
from headrace.conformance.dialects import DIALECTS, dialect_of
from headrace.conformance.graphs import between, chain, interface, vlan, vnf
from headrace.conformance.node import Node
from headrace.conformance.rest import Rest
from headrace.conformance.runner import run_one
from headrace.conformance.target import Target
from headrace.conformance.upper_layer import UpperLayer
from tests.conformance_node.bed import SETTINGS
from tests.conformance_node.node import FaultyNode
from tests.conformance_node.original import original
from tests.conformance_node.packets import SimulatedFrames, SimulatedLoads


async def verdicts(generation: str, fault: int | None = None) -> dict[int, Verdict]:
    faulty = FaultyNode(fault)
    transport = httpx.ASGITransport(app=original(faulty, generation))
    rest = Rest("http://node", transport=transport)
    node = Node(rest, await dialect_of(rest), patience_s=1.0)
    assert node.dialect.name == generation
    target = Target(node, UpperLayer(rest), SETTINGS, frames=SimulatedFrames(faulty),
                    loads=SimulatedLoads(faulty))  # fmt: skip
    # The simulated packet path knows no flow-graphs.
    cases = registry.chosen("1-13,15-17,19,20" if generation == "g0" else "")
    return {case.number: (await run_one(case, target)).verdict for case in cases}


NEVER = {1, 2, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 20}
"""What the originals have no primitive for (8 to 10: but a datastore elsewhere)."""


@pytest.mark.parametrize("generation", ["g2", "g1"])
async def test_the_newer_generations_pass_what_they_can(generation: str) -> None:
    found = await verdicts(generation)
    assert {n for n, verdict in found.items() if verdict == Verdict.NOT_APPLICABLE} == NEVER
    assert {n for n, verdict in found.items() if verdict == Verdict.FAIL} == set()


async def test_the_first_generation_passes_what_it_can() -> None:
    found = await verdicts("g0")
    assert {n for n, verdict in found.items() if verdict == Verdict.PASS} == {3, 4, 5, 7}
    assert {n for n, verdict in found.items() if verdict == Verdict.FAIL} == set()


async def test_a_fault_of_an_original_is_found() -> None:
    found = await verdicts("g1", fault=6)
    assert [n for n, verdict in found.items() if verdict == Verdict.FAIL] == [6]


def test_a_graph_as_a_flow_graph() -> None:
    document = chain(vlan("a", "p0", 7), interface("b", "p1"), [vnf("v", "pass")])
    written = DIALECTS["g0"].written(document)["flow-graph"]
    assert written["VNFs"] == [{"id": "pass"}]
    assert written["flow-rules"][0] == {
        "id": "there0",
        "priority": "10",
        "match": {"port": "p0", "vlan_id": "7"},
        "action": {"vlan": {"operation": "pop"}, "VNF_id": "pass:1"},
    }
    back = between(interface("a", "p0"), vlan("b", "p1", 9), "push")
    action = DIALECTS["g0"].written(back)["flow-graph"]["flow-rules"][0]["action"]
    assert action == {"port": "p1", "vlan": {"operation": "push", "vlan_id": "9"}}


async def test_what_is_no_node_is_told() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(404))
    with pytest.raises(ValueError, match="no Universal Node"):
        await dialect_of(Rest("http://elsewhere", transport=transport))
