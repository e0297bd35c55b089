# SPDX-License-Identifier: Apache-2.0
"""A graph's wiring as the API tells it, and the rates that `headrace graph watch` makes of two."""

import pytest

from headrace.commands.graph_watch import rates
from headrace.switches.base import SwitchError
from tests.node import graphs
from tests.node.api import Api

TWO = graphs.document(
    [graphs.interface("in", "p0"), graphs.vlan("out", "p1", 7)],
    [
        *graphs.joined(("endpoint:in", "vnf:v:port:0"), ("vnf:v:port:1", "endpoint:out")),
        graphs.rule(
            "ssh",
            {"port_in": "endpoint:in", "ether_type": "0x800", "protocol": "6", "dest_port": "22"},
            {"drop": True},
            priority=20,
        ),
    ],
    [graphs.vnf("v", "pass")],
)


async def test_it_has_all_that_is_wired(api: Api) -> None:
    assert (await api("PUT", "/NF-FG/g", TWO)).status_code == 201
    wiring = (await api("GET", "/NF-FG/g/wiring")).json()
    assert wiring["graph"] == "g" and wiring["message"] == ""
    points = {point["id"]: point for point in wiring["end_points"]}
    assert points["in"]["where"] == "p0" and points["out"]["where"] == "p1, VLAN 7"
    assert points["in"]["port"]["rx_packets"] == 0
    (vnf,) = wiring["vnfs"]
    assert vnf["running"] and vnf["cycles"]["packets"] == 3
    assert [port["reference"] for port in vnf["ports"]] == ["vnf:v:port:0", "vnf:v:port:1"]
    assert vnf["ports"][0]["counters"] is not None and vnf["ports"][0]["direct"] is None
    paths = {(path["from"], path["to"]): path["rules"] for path in wiring["paths"]}
    assert paths == {
        ("endpoint:in", "vnf:v:port:0"): 1,
        ("vnf:v:port:0", "endpoint:in"): 1,
        ("vnf:v:port:1", "endpoint:out"): 1,
        ("endpoint:out", "vnf:v:port:1"): 1,
        ("endpoint:in", None): 1,
    }
    (brief,) = (await api("GET", "/node/graphs")).json()
    assert (brief["id"], brief["status"], brief["vnfs"], brief["running"]) == (
        "g",
        "complete",
        1,
        1,
    )
    assert (brief["end_points"], brief["rules"]) == (2, 5)
    assert (await api("GET", "/NF-FG/none/wiring")).status_code == 404


async def test_it_is_known_while_the_switch_is_down(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api("PUT", "/NF-FG/g", TWO)

    async def down(_: object = None) -> None:
        raise SwitchError("the switch is down")

    monkeypatch.setattr(api.node.driver, "port_statistics", down)
    answer = await api("GET", "/NF-FG/g/wiring")
    assert answer.status_code == 200
    wiring = answer.json()
    assert wiring["message"] == "the switch is down"
    assert wiring["end_points"][0]["received"] == {"packets": None, "bytes": None}
    assert wiring["vnfs"][0]["ports"][0]["counters"] is None
    assert wiring["paths"][0]["packets"] is None
    shown = rates(wiring, {**wiring, "at_ns": wiring["at_ns"] + 10**9})
    assert shown["message"] == "the switch is down" and shown["ports"][0]["rx"] is None


async def test_rates(api: Api) -> None:
    await api("PUT", "/NF-FG/g", TWO)
    before = (await api("GET", "/NF-FG/g/wiring")).json()
    after = (await api("GET", "/NF-FG/g/wiring")).json()
    after["at_ns"] = before["at_ns"] + 2 * 10**9
    after["vnfs"][0]["cycles"] = {"busy_cycles": 401, "idle_cycles": 602, "packets": 5} | {
        "cpu_ns": None,
        "reason": None,
    }
    after["vnfs"][0]["ports"][1]["counters"] |= {"rx_packets": 300, "tx_dropped": 20}
    after["paths"][0]["packets"], before["paths"][0]["packets"] = 50, 10
    shown = rates(before, after)
    assert shown["seconds"] == 2
    (vnf,) = shown["vnfs"]
    assert vnf["cycles_per_packet"] == 200 and vnf["busy_percent"] == 40 and vnf["cpu"] is None
    port = {each["port"]: each for each in shown["ports"]}["vnf:v:port:1"]
    assert (port["rx"], port["tx"], port["dropped"]) == (150, 0, 10)
    assert shown["paths"][0]["packets"] == 20
    # A counter that has begun anew gives no rate, and what is new none either.
    after["paths"][0]["packets"] = 3
    before["vnfs"] = []
    shown = rates(before, after)
    assert shown["paths"][0]["packets"] is None and shown["vnfs"] == []
