# SPDX-License-Identifier: Apache-2.0
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.bench.core_plan import plan_cores
from headrace.bench.device import TrialRequest
from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.graph import vnf_mac
from headrace.bench.in_process import prepared, sent
from headrace.bench.node_process import node_config
from headrace.bench.plan import Clock, blocks_of
from headrace.bench.scenario import EXTRAS, Scenario, find, load, load_all
from headrace.bench.settings import SCENARIOS
from headrace.bench.steps import Timing
from headrace.results import Case


def test_the_long_scenario_asks_for_every_further_measurement() -> None:
    shipped = {scenario.name: scenario for scenario in load_all(SCENARIOS / "long")}
    long = shipped["robustness"]
    assert long.measure.extras == list(EXTRAS) and 0.0001 in (long.measure.loss_ratios or [])
    assert not shipped.keys() & {scenario.name for scenario in load_all()}


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
    port = replace(port, jobs=[j for j in port.jobs if j.case.scenario == "port-to-port"])
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
        clock.learn(turn.step, 0.5 * turn.step.expected_s(Timing()))
    clock.learn_setup(1, 0.5)
    steps = sum(turn.step.expected_s(Timing()) for turn in block.turns(0))
    assert clock.block_s(block) == pytest.approx(0.5 * steps + 0.5 * len(block.subjects))
    assert clock.block_s(block) < guess
    assert clock.has_time_for(60) and not clock.has_time_for(61)
    moment = 145.0
    assert clock.left_s == pytest.approx(15) and clock.used == pytest.approx(0.75)
    moment = 500.0
    assert clock.left_s == 0 and clock.used == 1


def test_ends_in_the_switch_are_for_dpdk_switches_and_have_no_latency(tmp_path: Path) -> None:
    def made(subject: str, more: str = "overload: true", traffic: str = "{}") -> Scenario:
        path = tmp_path / "ends.yaml"
        path.write_text(
            f"title: t\nquestion: q\ngraphs: [{{shape: p2p}}, {{shape: parallel, vnfs: [2]}}]\n"
            f"subjects: [{{{subject}}}]\nmeasure: {{{more}}}\ntraffic: {traffic}\n"
        )
        return load(path)

    inside = made("switch: ovs-dpdk, ports: in-process")
    assert inside.subjects[0].inner_ports == "vhost-user"
    assert {case.subject for case in inside.cases()} == {
        "ovs-dpdk/in-process", "ovs-dpdk/in-process+vhost-user"
    }  # fmt: skip
    one_way = made("switch: headrace, ports: memif, sink: in-process")
    assert one_way.cases()[0].ports == "memif>in-process"
    config = node_config(one_way.subjects[0], plan_cores([0, 1]), 1, Path("/p.so"))
    assert [port["kind"] for port in config["ports"]] == ["memif", "dpdk"]
    assert config["dpdk_plugins"] == ["/p.so"]
    with pytest.raises(ScenarioError, match="linux-bridge has no in-process"):
        made("switch: linux-bridge, ports: in-process")
    with pytest.raises(ScenarioError, match="stamps that come back"):
        made("switch: headrace, ports: in-process", "search: quick, latency_at: [0.5]")
    with pytest.raises(ScenarioError, match="reset: not with an in-process sink"):
        made("switch: headrace, ports: in-process", "reset: {}")
    with pytest.raises(ScenarioError, match="which of several parallel streams"):
        made("switch: headrace, ports: memif", traffic="{bare: true}")


def test_frames_of_an_in_process_source_are_the_generators() -> None:
    case = Case("s", "parallel", 2, "none", "headrace", "in-process", "vhost-user", "pass",
                "process", "imix-csit", 10)  # fmt: skip
    made, lengths = prepared(case)
    assert lengths is not None and set(lengths) == {60, 566, 1514}
    assert abs(float(np.mean(lengths)) + 4 - 353.83) < 4
    assert {bytes(row[:6]).hex(":") for row in made} == {vnf_mac(0), vnf_mac(1)}
    assert len({bytes(row[:6]) + bytes(row[30:34]) for row in made}) == 10
    with pytest.raises(DeviceError, match="take too much"):
        prepared(replace(case, size="1518", flows=1_000_000))


async def test_a_trial_without_loss_as_its_goal_ends_at_the_first_loss() -> None:
    looks = iter([7, 7, 7, 8])
    await sent(TrialRequest(0, "search", 60.0, 1e6, until_loss=True), lambda: next(looks), 0.01)
    assert next(looks, None) is None
    looks = iter([7, 8])
    begun = time.monotonic()
    await sent(TrialRequest(0, "search", 0.05, 1e6), lambda: next(looks), 0.01)
    assert time.monotonic() - begun >= 0.05 and next(looks) == 7
