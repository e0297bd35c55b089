# SPDX-License-Identifier: Apache-2.0
"""The generator at the node's own ports, through a graph: sent, received and counted in between."""

import os
from pathlib import Path

import httpx
import pytest

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.rest.app import make_app
from headrace.switches.ovs_dpdk import PROGRAM as OVS_DPDK
from headrace.traffic import StreamSpec, TrafficProcess
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]


def _need(switch: str) -> Path:
    try:
        programs = [find_program(f"headrace-{name}") for name in ("traffic", "vnf")]
        if switch == "headrace":
            find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(str(error))
    if switch == "ovs-dpdk" and not os.access(OVS_DPDK, os.X_OK):
        pytest.skip(f"{OVS_DPDK} is not installed")
    return programs[0]


@pytest.mark.parametrize(
    ("switch", "kind", "hugepages"),
    [
        ("headrace", "memif", "auto"),
        ("headrace", "memif", "off"),
        ("headrace", "vhost-user", "auto"),
        ("ovs-dpdk", "vhost-user", "auto"),
        ("ovs-dpdk", "vhost-user", "off"),
    ],
)
async def test_counted_at_both_ends(
    start_node: StartNode, switch: str, kind: str, hugepages: str
) -> None:
    program = _need(switch)
    node = await start_node(
        switch=switch,
        hugepages=hugepages,
        ports=[{"name": name, "kind": kind} for name in ("p0", "p1")],
        vnf_ports=kind,
        oversubscribe=True,
    )
    transport = httpx.ASGITransport(app=make_app(node))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http,
        TrafficProcess(cpu=node.config.cores.vnf[0], program=program, memory_mb=128) as traffic,
    ):
        answer = await http.put("/NF-FG/g", json=graphs.chain("pass", 1))
        assert answer.status_code == 201, answer.text
        for number, port in enumerate((await http.get("/node/ports")).json()):
            devargs = port["attach"]["devargs"].replace("{n}", str(number))
            await traffic.add_port(port["name"], devargs, wait_link_s=10)
        stream = StreamSpec(name="s", tx_port="p0", rx_port="p1", size=64, flows=10)
        await traffic.configure([stream])
        # On a busy machine OVS's main thread may take seconds to give a new ring to its PMD thread.
        for _ in range(20):
            result = await traffic.trial(0.5, 20_000, drain_s=0.5, yield_core=True)
            if result.received > 0:
                break
        assert result.received > 0
        # What is lost, is lost where somebody counts it; the machine may be busy with other work.
        statistics = {p["name"]: p["statistics"] for p in (await http.get("/node/ports")).json()}
        vnf = (await http.get("/node/vnfs/g/v0/counters")).json()["ports"]
        assert statistics["p0"]["rx_packets"] >= vnf["port:0"]["rx_packets"]
        assert vnf["port:0"]["rx_packets"] >= vnf["port:1"]["tx_packets"]
        assert vnf["port:1"]["tx_packets"] >= statistics["p1"]["tx_packets"] >= result.received
        assert result.duplicated == result.misdelivered == result.reordered == 0
        cycles = (await http.get("/node/switch/cycles")).json()["workers"][0]
        assert cycles["busy_cycles"] > 0
        # Every packet crosses the switch twice: from p0 and from the VNF.
        crossings = statistics["p0"]["rx_packets"] + vnf["port:1"]["tx_packets"]
        assert cycles["packets"] == pytest.approx(crossings, rel=0.01)
        assert (await http.delete("/NF-FG/g")).status_code == 204
        after = await traffic.trial(0.2, 5_000, drain_s=0.2, yield_core=True)
        assert after.received == 0
