# SPDX-License-Identifier: Apache-2.0
"""NFVbench's one line and VSPERF's names as scenarios."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.bench.errors import ScenarioError
from headrace.bench.other_suites import count_of, nfvbench, pps_of, size_of, vsperf
from headrace.cli import app
from headrace.results.store import Store

HERE: dict[str, Any] = {"switch": "headrace", "ports": "vhost-user"}


def test_nfvbench_has_its_own_words_and_loss_ratios() -> None:
    one = nfvbench("PVP", HERE, sizes=["64", "IMIX"], flows=count_of("10k"))
    assert {case.size for case in one.cases()} == {"64", "imix-nfvbench"}
    assert {(case.graph, case.flows, case.variant) for case in one.cases()} == {
        ("pvp", 10_000, "both-ways")
    }
    assert one.measure.loss_ratios == [0.00001, 0.001] and one.measure.search == "quick"
    dense = nfvbench("pvp", HERE, count=3, rate="pdr", duration_s=10)
    assert dense.cases()[0].graph == "pvpv3" and dense.measure.loss_ratios == [0.001]
    assert (dense.measure.search, dense.measure.search_trial_s) == ("rfc2544", 10)
    fixed = nfvbench("PVVP", HERE, rate="0.5Mpps", both_ways=False)
    assert fixed.measure.loads_pps == [500_000] and fixed.cases()[0].graph == "pvvp2"
    assert nfvbench("EXT", HERE).cases()[0].graph == "p2p"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chain": "PVPVP"}, "PVP, PVVP, EXT"),
        ({"chain": "PVVP", "count": 2}, "side by side"),
        ({"chain": "PVP", "rate": "fast"}, "500kpps"),
        ({"chain": "PVP", "sizes": ["big"]}, "or IMIX"),
        ({"chain": "PVP", "sizes": ["63"]}, "traffic.sizes"),
    ],
)
def test_nfvbench_refuses_what_is_not_its(arguments: dict[str, Any], message: str) -> None:
    chain = arguments.pop("chain")
    with pytest.raises(ScenarioError, match=message):
        nfvbench(chain, HERE, **arguments)


def test_counts_rates_and_sizes() -> None:
    assert [count_of(text) for text in ("7", "10k", "1.5M")] == [7, 10_000, 1_500_000]
    assert [pps_of(text) for text in ("10pps", "2kpps", "1Mpps")] == [10, 2000, 1e6]
    assert size_of("imix") == "imix-nfvbench" and size_of("1518") == 1518
    with pytest.raises(ScenarioError, match="no count"):
        count_of("many")


@pytest.mark.parametrize(
    ("name", "graph", "measured"),
    [
        ("p2p", "p2p", "quick"),
        ("phy2phy_tput", "p2p", "rfc2544"),
        ("pvp_cont", "pvp", None),
        ("pvvp3", "pvvp3", "quick"),
        ("pvvp", "pvvp2", "quick"),
        ("pvpv4_back2back", "pvpv4", None),
    ],
)
def test_vsperf_names(name: str, graph: str, measured: str | None) -> None:
    one = vsperf(name, [HERE, {"switch": "ovs-dpdk", "ports": "vhost-user"}], ["64"])
    assert {case.graph for case in one.cases()} == {graph} and one.measure.search == measured
    assert (one.measure.back_to_back is not None) == name.endswith("back2back")


@pytest.mark.parametrize("name", ["v2v", "pvp3", "p2p2", "pvvp_fast", ""])
def test_what_is_no_case_of_vsperf(name: str) -> None:
    with pytest.raises(ScenarioError, match="none of p2p, pvp"):
        vsperf(name, [HERE])


def test_the_commands_measure_simulated_devices(tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    for words in (
        ["nfvbench", "--chain", "PVP", "--frame-size", "IMIX"],
        ["vsperf", "pvvp3", "-fs", "64"],
    ):
        run = CliRunner().invoke(
            app, ["bench", *words, "--simulate", "--results", str(results), "--minutes", "1"]
        )
        assert run.exit_code == 0, run.output
    with Store(results) as store:
        points = {s.point for row in store.cases(1) for s in store.samples(row)}
        assert {"0.001% loss", "0.1% loss"} <= points
    refused = CliRunner().invoke(app, ["bench", "nfvbench", "--switch", "vpp"])
    assert refused.exit_code == 1
