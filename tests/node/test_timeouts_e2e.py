# SPDX-License-Identifier: Apache-2.0
"""Rules that go by themselves: in the switch, in status and statistics, and for good."""

import asyncio
import os
from collections.abc import AsyncIterator

import httpx
import pytest

from headrace.node.rest.app import make_app
from headrace.node.restarts import Restarter
from tests.node.graphs import out, rule
from tests.node.test_openflow_e2e import Bench, bench
from tests.node.wire import udp

__all__ = ["bench"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

IN = {"port_in": "endpoint:in"}
TO_OUT = out("endpoint:out")


@pytest.fixture
async def http(bench: Bench) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_app(bench.node))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def gone(bench: Bench, *rules: str) -> None:
    """Waits until these rules of the graph, and no others, have reached their timeouts."""
    restarter = Restarter(bench.node)
    async with asyncio.timeout(20):
        while bench.node.status(bench.node.graphs.record("g"))["expired-rules"] != sorted(rules):
            await restarter.look()
            await asyncio.sleep(0.2)


async def test_rules_expire(bench: Bench, http: httpx.AsyncClient) -> None:
    other = {**IN, "dest_mac": "02:00:00:00:00:09"}
    rules = [
        rule("hard", {**IN, "hard_timeout": "3"}, TO_OUT),
        rule("idle", {**other, "idle_timeout": "1"}, TO_OUT, priority=20),
        rule("back", {"port_in": "endpoint:out"}, out("endpoint:in")),
    ]
    await bench.deploy(*rules)
    for _ in range(20):
        bench.p0.send(udp())
    assert len(await bench.p1.receive(20)) == 20
    first = (await http.get("/NF-FG/g/statistics")).json()["rules"]
    assert [entry.get("expired") for entry in first][::2] == [False, None]
    await gone(bench, "hard", "idle")
    assert await bench.comes_to_pass(udp(), through=False)
    counted = (await http.get("/NF-FG/g/statistics")).json()
    assert [entry.get("expired") for entry in counted["rules"]] == [True, True, None]
    if bench.node.driver.name == "headrace":  # OVS counts with a delay
        assert counted["rules"][0]["packets"] == 20
        assert counted["end-points"][0]["received"]["packets"] == 20
    cookies = {row.cookie for row in await bench.node.driver.rule_statistics(bench.node.lsi0)}
    plan = bench.node.graphs.record("g").plan
    assert [r.cookie in cookies for r in plan.rules() if r.label.startswith("g/")] == [
        False,
        False,
        True,
    ]
    # An update of something else, and a switch that is started anew, do not bring it back.
    await bench.deploy(*rules[:2], rule("back", {"port_in": "endpoint:out"}, {"drop": True}))
    assert await bench.comes_to_pass(udp(), through=False)
    await bench.node.graphs.repair("g")
    assert await bench.comes_to_pass(udp(), through=False)
    # One that is written otherwise is another rule.
    await bench.deploy(rule("hard", {**IN, "hard_timeout": "60"}, TO_OUT), *rules[1:])
    assert await bench.comes_to_pass(udp(), through=True)


@pytest.mark.parametrize("bench", ["headrace"], indirect=True)
async def test_a_restart_of_the_switch_brings_no_rule_back(bench: Bench) -> None:
    await bench.deploy(
        rule("timed", {**IN, "hard_timeout": "1"}, TO_OUT),
        rule("back", {"port_in": "endpoint:out"}, out("endpoint:in")),
    )
    await gone(bench, "timed")
    await bench.node.supervisor.end("switch")
    await bench.node.fill_switch()
    labels = {row.cookie for row in await bench.node.driver.rule_statistics(bench.node.lsi0)}
    rules = {r.label: r.cookie in labels for r in bench.node.graphs.record("g").plan.rules()}
    assert rules == {"g/timed": False, "g/back": True}


@pytest.mark.parametrize("bench", ["headrace"], indirect=True)
async def test_a_used_rule_stays(bench: Bench) -> None:
    await bench.deploy(rule("idle", {**IN, "idle_timeout": "2"}, TO_OUT))
    for _ in range(8):
        assert len(await bench.over(udp())) == 1
        await asyncio.sleep(0.5)
    await gone(bench)
