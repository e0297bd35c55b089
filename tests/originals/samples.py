# SPDX-License-Identifier: Apache-2.0
"""Graphs of the shapes and dialects of the original node's samples, composed here.

Each has what its original has that matters to a node: which keys, which kinds of end-points and
VNFs, which ports share a number, whether priorities are text or missing. `kinds` are the VNFs by
the functional capability that the sample asks for; what is a template for it is the test's choice.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

WAN, LAN = "p1", "p0"
"""The physical ports of the node; the samples call theirs eth0, wlan0, veth1, ..."""


@dataclass(frozen=True)
class Sample:
    """A graph; `vnfs` by their ids, and how many ports each has.

    `wire` are the graph's ends between which a frame passes once all its VNFs pass frames on.
    """

    name: str
    origin: str
    graph: Json
    vnfs: dict[str, int] = field(default_factory=dict)
    wire: tuple[str, str] | None = (LAN, WAN)
    one_way: bool = False

    def document(self, templates: dict[str, str]) -> Json:
        """The graph, its VNFs asking for `templates` by the number of their ports."""
        made = copy.deepcopy(self.graph)
        for vnf in made["forwarding-graph"].get("VNFs", []):
            vnf["vnf_template"] = templates[str(len(vnf["ports"]))]
        return made


def interface(point: str, port: str, **more: Any) -> Json:
    """An end-point as an orchestrator writes it."""
    return {"id": point, "type": "interface", "interface": {"if-name": port, **more}}


def rule(name: str, source: str, target: str, **more: Any) -> Json:
    """All that comes from one port to another."""
    match = {"port_in": source, **more.pop("match", {})}
    return {"id": name, "match": match, "actions": [{"output_to_port": target}], **more}


def both(first: str, second: str, numbers: list[int], **more: Any) -> list[Json]:
    """Rules both ways; their ids count on."""
    made = []
    for source, target in ((first, second), (second, first)):
        numbers.append(len(numbers) + 1)
        made.append(rule(f"{numbers[-1]:08d}", source, target, **more))
    return made


def graph(**parts: Any) -> Json:
    """The root object."""
    rules = parts.pop("rules")
    return {"forwarding-graph": {**parts, "big-switch": {"flow-rules": rules}}}


def _passthrough() -> Sample:
    """Two interfaces and one rule, nothing else."""
    made = graph(
        name="passthrough",
        **{"end-points": [interface("00000001", LAN), interface("00000002", WAN)]},
        rules=[rule("00000001", "endpoint:00000001", "endpoint:00000002", priority=1)],
    )
    return Sample("simple_passthrough", "orchestrator/config", made, one_way=True)


def _passthrough_with_vnf() -> Sample:
    """One VNF `example` with the ports inout:0 and inout:1."""
    numbers: list[int] = []
    made = graph(
        name="passthrough with VNF",
        VNFs=[
            {
                "id": "00000001",
                "name": "example",
                "ports": [
                    {"id": "inout:0", "name": "data-port"},
                    {"id": "inout:1", "name": "data-port"},
                ],
            }
        ],
        **{"end-points": [interface("00000001", LAN), interface("00000002", WAN)]},
        rules=[
            *both("endpoint:00000001", "vnf:00000001:inout:0", numbers, priority=10),
            *both("vnf:00000001:inout:1", "endpoint:00000002", numbers, priority=10),
        ],
    )
    return Sample("passthrough_with_vnf", "orchestrator/config", made, {"00000001": 2})


def _demo() -> Sample:
    """A DHCP server and a NAT between two switches; management through an internal end-point."""
    numbers: list[int] = []

    def vnf(number: int, name: str, *ports: Json) -> Json:
        return {
            "id": f"{number:08d}",
            "name": name,
            "functional-capability": name.split("_")[0],
            "ports": list(ports),
            "gui-position": {"x": 100 * number, "y": 20},
        }

    def port(label: str, number: int, mac: int | None = None) -> Json:
        made: Json = {"id": f"{label}:{number}", "name": f"{label} port"}
        if mac is not None:
            made |= {"mac": f"02:01:02:03:04:{mac:02x}", "trusted": True}
        return made

    made = graph(
        id="demo",
        name="DHCP and NAT with a management network",
        VNFs=[
            vnf(1, "dhcp_config", port("inout", 0, 1), port("management", 1)),
            vnf(2, "nat_config", port("user", 0), port("wan", 1), port("management", 2)),
            vnf(3, "switch", port("L2Port", 0), port("L2Port", 1), port("L2Port", 2)),
            vnf(4, "switch_management", port("L2Port", 0), port("L2Port", 1), port("L2Port", 2)),
        ],
        **{
            "end-points": [
                {**interface("00000001", LAN), "gui-position": {"x": 1, "y": 2}},
                interface("00000002", WAN),
                {
                    "id": "00000003",
                    "name": "management",
                    "type": "internal",
                    "internal": {"internal-group": "1"},
                },
            ]
        },
        rules=[
            *both("endpoint:00000001", "vnf:00000003:L2Port:0", numbers, priority=100),
            *both("vnf:00000003:L2Port:1", "vnf:00000001:inout:0", numbers, priority=100),
            *both("vnf:00000003:L2Port:2", "vnf:00000002:user:0", numbers, priority=100),
            *both("vnf:00000002:wan:1", "endpoint:00000002", numbers, priority=100),
            *both("vnf:00000004:L2Port:0", "vnf:00000001:management:1", numbers, priority=1),
            *both("vnf:00000004:L2Port:1", "vnf:00000002:management:2", numbers, priority=1),
            *both("vnf:00000004:L2Port:2", "endpoint:00000003", numbers, priority=1),
        ],
    )
    vnfs = {"00000001": 2, "00000002": 3, "00000003": 3, "00000004": 3}
    return Sample("demoGraph", "use-cases/configuration-service", made, vnfs)


def _management() -> Sample:
    """The host itself, a DHCP server and a switch in an internal group."""
    numbers: list[int] = []
    made = graph(
        id="management",
        name="management network",
        VNFs=[
            {
                "id": "00000001",
                "name": "dhcp",
                "functional-capability": "dhcp",
                "ports": [{"id": "inout:0"}],
            },
            {
                "id": "00000002",
                "name": "switch",
                "functional-capability": "switch",
                "ports": [{"id": f"L2Port:{number}"} for number in range(3)],
            },
        ],
        **{
            "end-points": [
                {
                    "id": "00000001",
                    "type": "host-stack",
                    "host-stack": {"configuration": "static", "ipv4": "192.168.40.1/24"},
                },
                {"id": "00000002", "type": "internal", "internal": {"internal-group": "1"}},
            ]
        },
        rules=[
            *both("vnf:00000002:L2Port:0", "endpoint:00000001", numbers, priority=1),
            *both("vnf:00000002:L2Port:1", "vnf:00000001:inout:0", numbers, priority=1),
            *both("vnf:00000002:L2Port:2", "endpoint:00000002", numbers, priority=1),
        ],
    )
    vnfs = {"00000001": 1, "00000002": 3}
    return Sample("managementNetGraph", "use-cases/configuration-service", made, vnfs, wire=None)


def _native_nat() -> Sample:
    """A native NAT; end-points have a node-id, rules no priority."""
    numbers: list[int] = []
    node = {"node-id": "10.0.0.1"}
    made = graph(
        id="nat",
        name="native NAT",
        VNFs=[
            {
                "id": "00000001",
                "name": "nat",
                "vnf_template": "nat_native.json",
                "ports": [{"id": "inside:0"}, {"id": "outside:1"}],
            }
        ],
        **{"end-points": [interface("00000001", LAN, **node), interface("00000002", WAN, **node)]},
        rules=[
            *both("endpoint:00000001", "vnf:00000001:inside:0", numbers),
            *both("vnf:00000001:outside:1", "endpoint:00000002", numbers),
        ],
    )
    return Sample("nffgNAT", "use-cases/sigcomm-native", made, {"00000001": 2})


def _native_full() -> Sample:
    """Native VNFs in a row: a bridge of users, a firewall, a NAT; web traffic goes around one."""
    numbers: list[int] = []
    web = {"ether_type": "0x800", "protocol": "6", "dest_port": "80"}
    made = graph(
        id="full",
        name="full scenario",
        VNFs=[
            {
                "id": name,
                "name": name,
                "vnf_template": f"{name}.json",
                "ports": [{"id": "port:0"}, {"id": "port:1"}],
            }
            for name in ("bridge", "firewall", "nat")
        ],
        **{"end-points": [interface("1", LAN, **{"node-id": "n"}), interface("2", WAN)]},
        rules=[
            *both("endpoint:1", "vnf:bridge:port:0", numbers),
            rule("web", "vnf:bridge:port:1", "vnf:nat:port:0", match=web, priority=100),
            *both("vnf:bridge:port:1", "vnf:firewall:port:0", numbers),
            rule("down", "vnf:firewall:port:1", "vnf:nat:port:0"),
            rule("up", "vnf:nat:port:0", "vnf:firewall:port:1"),
            *both("vnf:nat:port:1", "endpoint:2", numbers),
        ],
    )
    vnfs = {name: 2 for name in ("bridge", "firewall", "nat")}
    return Sample("nffgFullScenario", "use-cases/sigcomm-native", made, vnfs)


def _frog_nat() -> Sample:
    """The orchestrator's NAT, whose two ports have the same number under different labels."""
    numbers: list[int] = []
    made = graph(
        name="Protected access to the internet",
        VNFs=[
            {
                "id": "00000001",
                "name": "nat",
                "functional-capability": "nat",
                "ports": [{"id": "USER:0", "name": "USER"}, {"id": "WAN:0", "name": "WAN"}],
            }
        ],
        **{"end-points": [interface("00000001", LAN), interface("00000002", WAN)]},
        rules=[
            *both("endpoint:00000001", "vnf:00000001:USER:0", numbers, priority=20000),
            *both("vnf:00000001:WAN:0", "endpoint:00000002", numbers, priority=20000),
        ],
    )
    return Sample("put_graph", "frog4-orchestrator/scripts", made, {"00000001": 2})


def _frog_vlans(number: int) -> Sample:
    """The orchestrator's demonstration: users on a VLAN of one port, a VNF, the other port."""
    numbers: list[int] = []
    tag = {"vlan-id": str(280 + number), "if-name": LAN}
    made = graph(
        name=f"demo {number}",
        VNFs=[
            {
                "id": "00000001",
                "name": "switch",
                "functional-capability": "switch",
                "ports": [{"id": f"L2Port:{port}"} for port in range(2)],
            }
        ],
        **{
            "end-points": [
                {"id": "00000001", "type": "vlan", "vlan": tag},
                {"id": "00000002", "type": "interface", "interface": {"if-name": WAN}},
            ]
        },
        rules=[
            *both("endpoint:00000001", "vnf:00000001:L2Port:0", numbers, priority=20000),
            *both("vnf:00000001:L2Port:1", "endpoint:00000002", numbers, priority=20000),
        ],
    )
    return Sample(
        f"instantiate_demo_graph_{number}",
        "frog4-orchestrator/scripts",
        made,
        {"00000001": 2},
        wire=(f"{LAN}.{280 + number}", WAN),
    )


def _library() -> Sample:
    """The library's own: text in every field, a tag that is pushed and popped, an IP match."""
    ip = {"ether_type": "2048", "source_ip": "10.0.0.1"}
    made = graph(
        name="library",
        description="of the library",
        VNFs=[
            {
                "id": "fw",
                "functional-capability": "firewall",
                "ports": [{"id": "in:0", "name": "in"}, {"id": "out:1", "name": "out"}],
            }
        ],
        **{"end-points": [interface("in", LAN), interface("out", WAN)]},
        rules=[
            rule("1", "endpoint:in", "vnf:fw:in:0", priority=40000, description="users"),
            rule("2", "vnf:fw:in:0", "endpoint:in", priority=40000),
            {
                "id": "3",
                "priority": 40001,
                "match": {"port_in": "vnf:fw:out:1", **ip, "dest_port": "53", "protocol": "17"},
                "actions": [{"push_vlan": "25"}, {"output_to_port": "endpoint:out"}],
            },
            rule("4", "vnf:fw:out:1", "endpoint:out", priority=40000),
            {
                "id": "5",
                "priority": 40001,
                "match": {"port_in": "endpoint:out", "vlan_id": "25"},
                "actions": [{"pop_vlan": True}, {"output_to_port": "vnf:fw:out:1"}],
            },
            rule("6", "endpoint:out", "vnf:fw:out:1", priority=40000),
        ],
    )
    return Sample("README_NFFG", "nffg-library", made, {"fw": 2})


def _old_interfaces() -> Sample:
    """The guide to VNFs of 2016: `interface` is the name of the port, too; numbers are bare."""
    numbers: list[int] = []

    def point(name: str, port: str) -> Json:
        return {"id": name, "type": "interface", "interface": {"interface": port}}

    made = graph(
        id="00000002",
        name="launch",
        VNFs=[
            {
                "id": "00000001",
                "name": "example",
                "ports": [{"id": "inout:0"}, {"id": "inout:1"}],
            }
        ],
        **{"end-points": [point("00000001", LAN), point("00000002", WAN)]},
        rules=[
            *both("endpoint:00000001", "vnf:00000001:inout:0", numbers, priority=10),
            *both("vnf:00000001:inout:1", "endpoint:00000002", numbers, priority=10),
        ],
    )
    return Sample("README_LAUNCH_VNF", "NFs", made, {"00000001": 2})


def _forwarding() -> Sample:
    """Of the benchmarks: a port of a NIC to another, both ways."""
    numbers: list[int] = []
    made = graph(
        id="pfwd",
        **{"end-points": [interface("1", LAN), interface("2", WAN)]},
        rules=both("endpoint:1", "endpoint:2", numbers, priority=1),
    )
    return Sample("pfwd_dpdk1", "orchestrator/config", made)


def _bng_nat() -> Sample:
    """Of the benchmarks: a BNG and a NAT in a row."""
    numbers: list[int] = []
    made = graph(
        id="bng-nat",
        VNFs=[
            {"id": "bng", "name": "bng", "ports": [{"id": "port:0"}, {"id": "port:1"}]},
            {"id": "nat", "name": "nat", "ports": [{"id": "port:0"}, {"id": "port:1"}]},
        ],
        **{"end-points": [interface("1", LAN), interface("2", WAN)]},
        rules=[
            *both("endpoint:1", "vnf:bng:port:0", numbers, priority=1),
            *both("vnf:bng:port:1", "vnf:nat:port:0", numbers, priority=1),
            *both("vnf:nat:port:1", "endpoint:2", numbers, priority=1),
        ],
    )
    return Sample("bng_nat_nffg", "orchestrator/config", made, {"bng": 2, "nat": 2})


def _nat_machine() -> Sample:
    """Of the benchmarks: a NAT between two ports of a NIC."""
    numbers: list[int] = []
    made = graph(
        id="nat.dpdk1",
        VNFs=[{"id": "nat", "name": "nat", "ports": [{"id": "port:0"}, {"id": "port:1"}]}],
        **{"end-points": [interface("1", LAN), interface("2", WAN)]},
        rules=[
            *both("endpoint:1", "vnf:nat:port:0", numbers, priority=1),
            *both("vnf:nat:port:1", "endpoint:2", numbers, priority=1),
        ],
    )
    return Sample("nat.dpdk1", "orchestrator/config", made, {"nat": 2})


def _split_bng() -> Sample:
    """Of the benchmarks: a balancer before two workers and one behind them."""
    numbers: list[int] = []
    balancer = [{"id": f"port:{number}"} for number in range(3)]
    worker = [{"id": f"port:{number}"} for number in range(2)]
    made = graph(
        id="splitbng",
        VNFs=[
            {"id": "front", "name": "balancer", "ports": balancer},
            {"id": "w1", "name": "bng-worker", "ports": worker},
            {"id": "w2", "name": "bng-worker", "ports": worker},
        ],
        **{"end-points": [interface("1", LAN), interface("2", WAN)]},
        rules=[
            *both("endpoint:1", "vnf:front:port:0", numbers, priority=1),
            *both("vnf:front:port:1", "vnf:w1:port:0", numbers, priority=1),
            rule("w2", "vnf:w2:port:0", "vnf:front:port:2", priority=1),
            rule("up", "vnf:w1:port:1", "endpoint:2", priority=1),
            rule("down", "endpoint:2", "vnf:w1:port:1", priority=1),
            rule("up2", "vnf:w2:port:1", "endpoint:2", priority=1),
        ],
    )
    vnfs = {"front": 3, "w1": 2, "w2": 2}
    return Sample("splitbng_nffg", "orchestrator/config", made, vnfs)


def _type_five() -> Sample:
    """Of the benchmarks: one VNF to which traffic comes by two rules of one port."""
    arp = {"ether_type": "0x0806"}
    made = graph(
        id="vnft5",
        VNFs=[{"id": "t5", "name": "type five", "ports": [{"id": "port:0"}, {"id": "port:1"}]}],
        **{"end-points": [interface("1", LAN), interface("2", WAN)]},
        rules=[
            rule("1", "endpoint:1", "vnf:t5:port:0", match=arp, priority=200),
            rule("2", "endpoint:1", "vnf:t5:port:0", priority=100),
            rule("3", "vnf:t5:port:0", "endpoint:1", priority=100),
            rule("4", "vnf:t5:port:1", "endpoint:2", priority=100),
            rule("5", "endpoint:2", "vnf:t5:port:1", priority=100),
        ],
    )
    return Sample("nf-fg_vnft5_example", "orchestrator/config", made, {"t5": 2})


def _openbaton(name: str) -> Sample:
    """The VIM plug-in's: random ids, priority 0, user_data, an empty node-config."""
    numbers: list[int] = []
    made = graph(
        id=name,
        name=name,
        VNFs=[
            {
                "id": "kq3vd81s",
                "name": "server",
                "description": "",
                "functional_capability": "server",
                "user_data": "",
                "ports": [
                    {"id": "port:0", "trusted": False, "mac": "02:11:22:33:44:55"},
                    {"id": "port:1", "trusted": False},
                ],
            }
        ],
        **{
            "end-points": [interface("a1b2c3d4", LAN), interface("e5f6a7b8", WAN)],
            "node-config": [],
        },
        rules=[
            *both("endpoint:a1b2c3d4", "vnf:kq3vd81s:port:0", numbers, priority=0),
            *both("vnf:kq3vd81s:port:1", "endpoint:e5f6a7b8", numbers, priority=0),
        ],
    )
    return Sample(name, "unvim4openbaton/Examples", made, {"kq3vd81s": 2})


def _openbaton_host() -> Sample:
    """The VIM plug-in's first graph: the host's own interface in an internal group."""
    numbers: list[int] = []
    made = graph(
        id="boot_hs",
        VNFs=[
            {"id": "sw", "name": "switch", "ports": [{"id": "port:0"}, {"id": "port:1"}]},
        ],
        **{
            "end-points": [
                {
                    "id": "hs",
                    "type": "host-stack",
                    "host-stack": {"configuration": "static", "ipv4": "192.168.40.1/24"},
                },
                {"id": "in", "type": "internal", "internal": {"internal-group": "management"}},
            ],
            "node-config": [],
        },
        rules=[
            *both("endpoint:hs", "vnf:sw:port:0", numbers, priority=0),
            *both("vnf:sw:port:1", "endpoint:in", numbers, priority=0),
        ],
    )
    return Sample("boot_hs_graph", "unvim4openbaton/Examples", made, {"sw": 2}, wire=None)


SAMPLES = [
    _passthrough(),
    _passthrough_with_vnf(),
    _demo(),
    _management(),
    _native_nat(),
    _native_full(),
    _frog_nat(),
    _frog_vlans(1),
    _frog_vlans(2),
    _library(),
    _old_interfaces(),
    _forwarding(),
    _nat_machine(),
    _bng_nat(),
    _split_bng(),
    _type_five(),
    _openbaton_host(),
    _openbaton("boot_wan_graph"),
    _openbaton("managementGraph"),
    _openbaton("operatorGraph"),
]
