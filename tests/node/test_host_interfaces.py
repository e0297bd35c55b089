# SPDX-License-Identifier: Apache-2.0
"""Which addresses a graph may give to the host, and what is refused where."""

import pytest

from headrace.node.config import from_dict
from headrace.node.errors import ConfigError, GraphRefused
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import Plan
from tests.node import graphs
from tests.node.surroundings import surroundings

NETWORKS = {"networks": ["198.51.100.0/24", "2001:db8::/32"]}


def plan_of(
    *points: graphs.Json, others: dict[str, Plan] | None = None, networks: object = NETWORKS
) -> Plan:
    hops = [(f"endpoint:{point['id']}", "endpoint:in") for point in points[:1]]
    document = graphs.document([graphs.interface("in", "p0"), *points], graphs.joined(*hops))
    graph, _ = parse(document)
    return make_plan(graph, "g", 1, surroundings(others, host_stack=networks))


def host(point: str = "host", **options: str) -> graphs.Json:
    return {"id": point, "type": "host-stack", "host-stack": options}


def test_one_port_and_one_interface() -> None:
    plan = plan_of(host(configuration="STATIC", ipv4="198.51.100.4/28", mac="02:00:00:00:00:01"))
    (interface,) = plan.host_interfaces()
    assert interface.addresses == ("198.51.100.4/28",) and not interface.dhcp
    assert (interface.port.kind, interface.port.name) == ("veth", "hrg1p0")
    assert interface.mac == "02:00:00:00:00:01"
    # The rules are there before the interface says its first word.
    assert plan.resources[-1] == interface


def test_configurations() -> None:
    (leased,) = plan_of(host(configuration="dhcp")).host_interfaces()
    assert leased.dhcp and leased.networks == ("198.51.100.0/24", "2001:db8::/32")
    (both,) = plan_of(host(IPv4="198.51.100.4/28", IPv6="2001:db8::4/64")).host_interfaces()
    assert both.addresses == ("198.51.100.4/28", "2001:db8::4/64")
    (bare,) = plan_of({"id": "m", "management": {}}).host_interfaces()
    assert bare.addresses == () and not bare.dhcp


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"configuration": "pppoe"}, "host-stack.configuration: 'pppoe' is neither static nor"),
        ({"configuration": "static"}, "end-points[1].host-stack.IPv4: is missing"),
        ({"configuration": "DHCP", "IPv4": "198.51.100.4/28"}, "DHCP gives the address"),
        ({"IPv4": "198.51.100.4"}, "IPv4: '198.51.100.4' is no IPv4 ADDRESS/PREFIX"),
        ({"IPv4": "2001:db8::4/64"}, "is no IPv4 ADDRESS/PREFIX"),
        ({"IPv4": "198.51.100.4/23"}, "198.51.100.0/23 is not among the networks"),
        ({"IPv4": "10.0.0.1/24"}, "(host_stack.networks in node.yaml)"),
        ({"mac": "01:00:00:00:00:01"}, "end-points[1].host-stack.mac:"),
    ],
)
def test_refusals(options: dict[str, str], words: str) -> None:
    with pytest.raises(GraphRefused) as caught:
        plan_of(host(**options))
    assert words in str(caught.value)


def test_without_networks_there_are_none() -> None:
    for options in ({"configuration": "DHCP"}, {"IPv4": "198.51.100.4/28"}):
        with pytest.raises(GraphRefused, match=r"host_stack\.networks in node\.yaml"):
            plan_of(host(**options), networks={})


def test_networks_do_not_overlap() -> None:
    first = plan_of(host(IPv4="198.51.100.4/28"))
    with pytest.raises(GraphRefused, match=r"overlaps with .* of end-point host of graph a"):
        plan_of(host(IPv4="198.51.100.5/25"), others={"a": first})
    plan_of(host(IPv4="198.51.100.129/25"), {"id": "m", "management": {}})
    with pytest.raises(GraphRefused, match=r"overlaps with .* of end-point host;"):
        plan_of(host(IPv4="198.51.100.4/28"), host("more", IPv4="198.51.100.5/28"))


def test_networks_of_node_yaml() -> None:
    with pytest.raises(ConfigError, match=r"host_stack\.networks"):
        from_dict({"host_stack": {"networks": ["198.51.100.4/24"]}})
