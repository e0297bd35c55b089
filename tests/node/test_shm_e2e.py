# SPDX-License-Identifier: Apache-2.0
"""Graphs whose VNFs meet the switch by shared memory: every packet is accounted for."""

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.rest.app import make_app
from headrace.protocols.control import call
from headrace.traffic import StreamSpec, TrafficProcess
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

_VNFS = 3
_PACKETS_PER_S = 20_000


async def ports_of(control: Path) -> dict[str, Any]:
    """The switch's ports by name, with their counters."""
    show = await call(control, "show")
    return {port["name"]: port for lsi in show["lsis"] for port in lsi["ports"]}


@pytest.mark.parametrize("hugepages", ["auto", "off"])
async def test_chain_accounts_for_every_packet(start_node: StartNode, hugepages: str) -> None:
    try:
        program = find_program("headrace-traffic")
        find_program("headrace-vnf"), find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(str(error))
    node = await start_node(
        switch="headrace",
        hugepages=hugepages,
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        vnf_ports="shm",
        oversubscribe=True,
    )
    transport = httpx.ASGITransport(app=make_app(node))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http,
        TrafficProcess(cpu=node.config.cores.vnf[0], program=program, memory_mb=128) as traffic,
    ):
        answer = await http.put("/NF-FG/g", json=graphs.chain("pass", _VNFS))
        assert answer.status_code == 201, answer.text
        for number, port in enumerate((await http.get("/node/ports")).json()):
            devargs = port["attach"]["devargs"].replace("{n}", str(number))
            await traffic.add_port(port["name"], devargs, wait_link_s=10)
        streams = [
            StreamSpec(name="there", tx_port="p0", rx_port="p1", size=64, flows=10),
            StreamSpec(name="back", tx_port="p1", rx_port="p0", size=1518, flows=10),
        ]
        await traffic.configure(streams)
        control = node.rundir / "switch" / "headrace-switch.ctl"
        for name in ("p0", "p1"):
            for _ in range(100):
                if (await ports_of(control))[name]["link_up"]:
                    break
                await asyncio.sleep(0.05)
        result = await traffic.trial(1.0, _PACKETS_PER_S, drain_s=0.5, yield_core=True)
        assert result.received > 0
        assert result.duplicated == result.misdelivered == result.reordered == 0

        ports = await ports_of(control)
        vnfs = [
            (await http.get(f"/node/vnfs/g/v{n}/counters")).json()["ports"] for n in range(_VNFS)
        ]
        crossed = 0
        for number, vnf in enumerate(vnfs):
            for position in range(2):
                inside = vnf[f"port:{position}"]
                port = ports[f"g1p{2 * number + position}"]
                assert port["type"] == "shm" and port["link_up"]
                # Both ends of the shared memory count the same, and the VNF lets nothing go unseen.
                assert port["counters"]["tx_packets"] == inside["rx_packets"]
                assert port["counters"]["rx_packets"] == inside["tx_packets"]
                other = vnf[f"port:{1 - position}"]
                assert inside["rx_packets"] == other["tx_packets"] + other["tx_dropped"]
                assert inside["rx_missed"] == 0
                crossed += inside["rx_packets"]
        assert crossed >= 2 * _VNFS * min(stream.received for stream in result.streams) > 0
        # Where the graph joins two VNFs and nothing else, the switch saw no packet.
        links = {link["port"]: link for link in (await call(control, "links"))["links"]}
        for number in range(1, 2 * _VNFS - 1):
            facing = number + 1 if number % 2 == 1 else number - 1
            inner = links[f"g1p{number}"]
            assert (inner["to"], inner["state"], inner["reason"]) == (f"g1p{facing}", "on", None)
            counted = ports[f"g1p{number}"]["counters"]["rx_packets"]
            assert 0 < inner["packets"] <= counted
        assert "of another kind" in links["g1p0"]["reason"]
        # What did not arrive is where it is counted: at a port whose queue was full.
        entered = sum(ports[name]["counters"]["rx_packets"] for name in ("p0", "p1"))
        left = sum(ports[name]["counters"]["tx_packets"] for name in ("p0", "p1"))
        dropped = sum(vnf[name]["tx_dropped"] for vnf in vnfs for name in vnf)
        dropped += sum(port["counters"]["tx_dropped"] for port in ports.values())
        assert entered == left + dropped
        assert (await http.delete("/NF-FG/g")).status_code == 204
        after = await traffic.trial(0.2, 5_000, drain_s=0.2, yield_core=True)
        assert after.received == 0
