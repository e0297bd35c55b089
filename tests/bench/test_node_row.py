# SPDX-License-Identifier: Apache-2.0
"""Nodes in a row: how they are joined and counted, and packets through three of them."""

import os
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from headrace.bench.core_plan import plan_cores
from headrace.bench.node_client import NodeClient
from headrace.bench.node_row import FAR_APART, NodeRow, RowClient
from headrace.bench.subject import Subject
from headrace.cli import app
from headrace.results import Case
from headrace.results.store import Store
from tests.bench.test_end_to_end import missing


def test_neighbors_are_a_server_and_a_client_or_the_ends_of_a_pair() -> None:
    row = NodeRow(
        Subject(switch="headrace", ports="memif", nodes=3, joined="memif"), plan_cores([0, 1])
    )
    first, middle, last = (row._ports(at) for at in range(3))
    assert first[0] == {"name": "in0", "kind": "memif"} and last[1]["kind"] == "memif"
    assert first[1]["options"]["role"] == "server" and middle[0]["options"]["role"] == "client"
    assert first[1]["options"]["socket"] == middle[0]["options"]["socket"]
    assert middle[1]["options"]["socket"] == last[0]["options"]["socket"]
    assert len(set(row.rundirs)) == 3
    pair = NodeRow(Subject(switch="linux-bridge", ports="veth", nodes=2), plan_cores([0, 1]))
    ends = (pair._ports(0)[1], pair._ports(1)[0])
    assert [end["kind"] for end in ends] == ["system", "system"]
    assert ends[0]["options"] != ends[1]["options"]
    for folder in (*row.rundirs, *pair.rundirs):
        folder.rmdir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"switch": "headrace", "ports": "in-process", "nodes": 2}, "generator at both ends"),
        ({"switch": "ovs-netdev", "ports": "veth", "nodes": 2, "joined": "memif"}, "by veth"),
    ],
)
def test_rows_that_cannot_be(words: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Subject.model_validate(words)


def _client(number: int) -> NodeClient:
    """A node whose one worker was busy for `number` cycles."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/cycles"):
            worker = {"core": 1, "busy_cycles": number, "idle_cycles": 1, "packets": 5}
            return httpx.Response(200, json={"tsc_hz": 1e9, "workers": [worker]})
        counted: dict[str, object] = {"rx_packets": 5, "tx_packets": 5, "tx_dropped": number}
        if request.url.path.endswith("/switch/ports"):
            ports = [{"lsi": "lsi0", "port": name, **counted} for name in ("in0", "out0")]
            return httpx.Response(200, json=ports)
        ports = [{"name": name, "kind": "memif", "attach": {"devargs": f"{name}{number}"}}
                 for name in ("in0", "out0")]  # fmt: skip
        return httpx.Response(200, json=ports)

    return NodeClient("http://node", httpx.MockTransport(answer))


async def test_the_row_is_one_node_to_the_bench() -> None:
    row = RowClient([_client(10), _client(20), _client(40)])
    assert [port.attach.devargs for port in await row.ports()] == ["in010", "out040"]
    cycles = await row.switch_cycles()
    assert cycles.busy == 70
    assert [worker.core for worker in cycles.workers] == [1, 1 + FAR_APART, 1 + 2 * FAR_APART]
    names = {(port.lsi, port.port) for port in await row.port_counters()}
    assert {("0:lsi0", "in0"), ("0:lsi0", "0:out0"), ("2:lsi0", "out0")} <= names
    assert len(names) == 6
    await row.close()


def test_a_packet_crosses_each_switch() -> None:
    case = Case("s", "p2p", 0, "none", "headrace", "memif", "", "", "", "64", 1,
                variant="nodes=3 joined=memif")  # fmt: skip
    assert case.traversals == 3 and case.subject == "headrace/memif nodes=3 joined=memif"


SCENARIO = """
title: rows
question: Do frames come back?
papers: [unify-d5.6]
graphs: [{shape: p2p}]
subjects:
  - {switch: headrace, ports: memif, nodes: 3, joined: memif}
  - {switch: linux-bridge, ports: veth, engine: native, function: bridge, nodes: 2}
traffic: {sizes: [64], flows: [10]}
measure: {overload: true, loads_pps: [2000]}
"""


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.full
@pytest.mark.timeout(300)
def test_packets_cross_three_nodes(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: nodes")
    if lacking := missing("headrace-traffic", "headrace-switch"):
        pytest.skip(f"not built: {lacking}")
    (tmp_path / "one.yaml").write_text(SCENARIO)
    outcome = CliRunner().invoke(
        app,
        ["bench", "run", str(tmp_path / "one.yaml"), "--quick", "--results",
         str(tmp_path / "r.sqlite")],
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    with Store(tmp_path / "r.sqlite") as store:
        assert store.skips(1) == [], outcome.output
        for case_id, case in store.cases(1).items():
            for trial in store.trials(case_id):
                assert 0 < trial.received <= trial.sent
                if case.switch == "headrace":
                    assert trial.switch_packets is not None
                    assert trial.switch_packets >= 3 * trial.received
    left = [path.name for path in Path("/sys/class/net").glob(f"hrj{os.getpid() % 100000}*")]
    assert left == []
