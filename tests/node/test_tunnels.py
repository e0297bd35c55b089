# SPDX-License-Identifier: Apache-2.0
"""Tunnel end-points: what becomes a port with which options, and what is refused where."""

from pathlib import Path

import pytest

from headrace.node.config import from_dict
from headrace.node.errors import ConfigError, GraphRefused
from headrace.node.node import Node
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import Plan, PortResource
from headrace.switches.base import PortSpec
from headrace.switches.linux_bridge import LinuxBridgeDriver
from headrace.switches.rules import LOCAL
from tests.node import graphs
from tests.node.crashing import SETTINGS
from tests.node.fakes import FakeDriver, FakeEngine, World
from tests.node.surroundings import surroundings

PORTS = [
    {"name": "p0", "kind": "memif"},
    {
        "name": "p1",
        "kind": "memif",
        "addresses": ["192.0.2.1/24", "2001:db8::1/64"],
        "gateways": ["192.0.2.254"],
    },
]
ENDS = {"local-ip": "192.0.2.1", "remote-ip": "192.0.2.9"}


def document(kind: str, **options: object) -> graphs.Json:
    return graphs.document(
        [graphs.interface("in", "p0"), {"id": "far", kind: {**ENDS, **options}}],
        graphs.joined(("endpoint:in", "endpoint:far")),
    )


def plan_of(document: graphs.Json, others: dict[str, Plan] | None = None) -> Plan:
    graph, _ = parse(document)
    return make_plan(graph, "g", 1, surroundings(others, ports=PORTS))


def tunnel(kind: str, **options: object) -> PortSpec:
    resources = plan_of(document(kind, **options)).resources
    (port,) = [r.port for r in resources if isinstance(r, PortResource)]
    return port


def test_options() -> None:
    gre = tunnel("gre-tunnel", **{"gre-key": 7})
    assert (gre.kind, gre.options) == (
        "gre",
        {
            "remote_ip": "192.0.2.9",
            "local_ip": "192.0.2.1",
            "local_prefix": "24",
            "underlay": "hr-0",
            "key": "7",
        },
    )
    assert tunnel("vxlan", vni="0x10", ttl=3).options.items() >= {"key": "16", "ttl": "3"}.items()
    both = tunnel("gtpu", teid="5").options
    assert (both["in_key"], both["out_key"]) == ("5", "5")
    apart = tunnel("gtpu", **{"in-teid": "5", "out-teid": "6"}).options
    assert (apart["in_key"], apart["out_key"]) == ("5", "6")
    away = tunnel("vxlan", vni="1", **{"remote-ip": "198.51.100.1"}).options
    assert away["gateway"] == "192.0.2.254"


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("vxlan", {}, "end-points[1].vxlan.vni: is missing"),
        ("vxlan", {"vni": "16777216"}, "end-points[1].vxlan.vni: 16777216 is out of range"),
        ("gtpu", {"in-teid": "1"}, "end-points[1].gtpu.out-teid: is missing"),
        ("gre-tunnel", {"gre-key": "x"}, "end-points[1].gre-tunnel.gre-key: 'x' is no number"),
        ("gre-tunnel", {"gre-key": "1", "secure": True}, "gre-tunnel.secure: this node has no"),
        ("vxlan", {"vni": "1", "ttl": "0"}, "end-points[1].vxlan.ttl: 0 is out of range"),
        ("vxlan", {"vni": "1", "local-ip": "a"}, "vxlan.local-ip: 'a' is no IP address"),
        ("vxlan", {"vni": "1", "local-ip": "192.0.2.7"}, "it has: 192.0.2.1, 2001:db8::1"),
        ("vxlan", {"vni": "1", "remote-ip": "2001:db8::2"}, "is of another IP version"),
        ("vxlan", {"vni": "1", "remote-ip": "239.1.1.1"}, "vxlan.remote-ip: 239.1.1.1 is no other"),
        (
            "vxlan",
            {"vni": "1", "local-ip": "2001:db8::1", "remote-ip": "2001:db9::2"},
            "2001:db9::2 is not in 2001:db8::/64, and port p1 has no gateway",
        ),
    ],
)
def test_refusals_name_the_place(kind: str, options: graphs.Json, words: str) -> None:
    with pytest.raises(GraphRefused) as caught:
        plan_of(document(kind, **options))
    assert words in str(caught.value)


def test_a_tunnel_is_one_graphs() -> None:
    first = plan_of(document("vxlan", vni="1"))
    second = document("vxlan", vni="1")
    second["forwarding-graph"]["end-points"][0] = graphs.vlan("in", "p1", 5)
    with pytest.raises(GraphRefused, match=r"the vxlan tunnel of key 1 .* is in use by graph a"):
        plan_of(second, {"a": first})
    second["forwarding-graph"]["end-points"][1]["vxlan"]["vni"] = "2"
    plan_of(second, {"a": first})
    twice = document("vxlan", vni="1")
    point = {**twice["forwarding-graph"]["end-points"][1], "id": "again"}
    twice["forwarding-graph"]["end-points"].append(point)
    with pytest.raises(GraphRefused, match=r"end-points\[2\]: another end-point of the graph has"):
        plan_of(twice)


def test_no_rule_stands_beside_those_of_tunnels() -> None:
    graph = graphs.port_to_port()
    graph["forwarding-graph"]["big-switch"]["flow-rules"][1]["priority"] = 65535
    with pytest.raises(GraphRefused, match="port p1 has addresses for tunnels"):
        plan_of(graph)


async def test_the_node_lets_tunnels_through(rundir: Path) -> None:
    world = World(rundir / "world.json")
    node = Node(
        from_dict({**SETTINGS, "ports": PORTS}),
        rundir,
        FakeDriver(world),
        {"process": FakeEngine(world)},
    )
    await node.start()
    rules = list(world.read()["rules"].values())
    to_switch = [r for r in rules if r["in_port"] == "p1"]
    assert all(r["actions"] == [{"kind": "output", "port": LOCAL}] for r in to_switch)
    assert all({"vlan_vid", "eth_type"} <= r["match"].keys() for r in to_switch)
    assert {r["in_port"] for r in rules} == {"p1", LOCAL}
    node.store.close()


@pytest.mark.parametrize(
    ("port", "words"),
    [
        ({"addresses": ["192.0.2.1"]}, "has no prefix length"),
        ({"addresses": ["nowhere/8"]}, "does not appear to be an IPv4 or IPv6"),
        ({"gateways": ["nowhere"]}, "does not appear to be an IPv4 or IPv6"),
    ],
)
def test_wrong_addresses_in_node_yaml(port: graphs.Json, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        from_dict({"ports": [{"name": "p0", "kind": "memif", **port}]})


def test_a_switch_without_tunnels_takes_no_addresses(rundir: Path) -> None:
    port = {"name": "p0", "kind": "veth", "addresses": ["192.0.2.1/24"]}
    with pytest.raises(ConfigError, match="switch linux-bridge has no tunnels"):
        Node(from_dict({"switch": LinuxBridgeDriver.name, "ports": [port]}), rundir)
