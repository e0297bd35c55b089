# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from headrace.bench.errors import ScenarioError
from headrace.bench.plan import Clock, blocks_of
from headrace.bench.scenario import find, load, load_all
from headrace.bench.steps import Timing


def test_the_shipped_scenarios_cover_the_slice() -> None:
    scenarios = {scenario.name: scenario for scenario in load_all()}
    cases = [case for scenario in scenarios.values() for case in scenario.cases()]
    assert len({(case.scenario, case.placement, case.name) for case in cases}) == len(cases)
    p2p = scenarios["port-to-port"].cases()
    assert {case.switch for case in p2p} == {"headrace", "ovs-dpdk", "linux-bridge"}
    assert {case.size for case in p2p} == {"64", "1518"}
    chains = scenarios["chain-cost"].cases()
    assert {(case.placement, case.vnfs) for case in chains} == {
        ("gather", 1), ("gather", 2), ("gather", 3), ("distribute", 2), ("distribute", 3)
    }  # fmt: skip
    assert {case.flows for case in scenarios["flow-sweep"].cases()} == {1, 100, 10_000, 100_000}
    assert {case.vnfs for case in scenarios["multi-vnf"].cases()} == {1, 2, 3}
    assert {case.switch for case in scenarios["native-vnf"].cases()} == {"linux-bridge"}


def test_headrace_and_ovs_dpdk_meet_on_the_same_ports() -> None:
    for scenario in load_all():
        kinds = {
            switch: {(case.ports, case.vnf_ports) for case in scenario.cases()
                     if case.switch == switch}
            for switch in ("headrace", "ovs-dpdk")
        }  # fmt: skip
        assert kinds["ovs-dpdk"] <= kinds["headrace"], scenario.name


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[]", "not a scenario"),
        ("title: x", "graphs"),
        ("graphs: [{shape: ring}]", "graphs.0.shape"),
        ("graphs: [{shape: chain}]", "needs vnfs"),
        ("graphs: [{shape: chain, vnfs: [2], placement: distribute}]", "parallel"),
        ("graphs: [{shape: p2p, vnfs: [1]}]", "no VNFs"),
        ("graphs: [{shape: chain, vnfs: [1], prefixes: 4}]", "only p2p"),
        ("measure: {latency_at: [0.5]}", "needs a search"),
        ("measure: {}", "nothing to measure"),
        ("traffic: {sizes: [63]}", "traffic.sizes"),
        ("speed: 9", "speed"),
        ("title: [", "while parsing"),
    ],
)
def test_errors_name_the_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"bad\.yaml") as caught:
        load(path)
    assert place in str(caught.value)


def test_an_unknown_scenario_lists_the_known() -> None:
    with pytest.raises(ScenarioError, match=r"no scenario 'nope'.*port-to-port"):
        find(["nope"])


def test_cases_of_one_graph_share_a_block_and_subjects_alternate() -> None:
    blocks = blocks_of(load_all())
    one = next(block for block in blocks if block.vnfs == 1)
    assert {job.case.scenario for job in one.jobs} >= {"multi-vnf", "chain-cost", "native-vnf"}
    assert len({(block.shape, block.vnfs, block.prefixes) for block in blocks}) == len(blocks)
    port = next(block for block in blocks if block.shape == "p2p" and not block.prefixes)
    first = [turn.job.case.subject for turn in port.turns(0)][: len(port.subjects)]
    second = [turn.job.case.subject for turn in port.turns(1)][: len(port.subjects)]
    assert first == port.subjects and second == list(reversed(port.subjects))
    kinds = [turn.step.kind for turn in port.turns(0)]
    assert kinds[:16] == ["overload"] * 12 + ["search"] * 4
    assert sorted(map(str, port.turns(0))) == sorted(map(str, port.turns(1)))


def test_the_clock_learns_and_keeps_to_its_budget() -> None:
    moment = 100.0
    clock = Clock(60, Timing(), now=lambda: moment)
    block = next(block for block in blocks_of(load_all()) if block.vnfs == 1)
    guess = clock.block_s(block)
    for turn in block.turns(0):
        clock.learn(turn.step.kind, 0.01)
    clock.learn("setup", 0.5)
    count = len(list(block.turns(0)))
    assert clock.block_s(block) == pytest.approx(0.01 * count + 0.5 * len(block.subjects))
    assert clock.block_s(block) < guess
    assert clock.has_time_for(60) and not clock.has_time_for(61)
    moment = 145.0
    assert clock.left_s == pytest.approx(15) and clock.used == pytest.approx(0.75)
    moment = 500.0
    assert clock.left_s == 0 and clock.used == 1
