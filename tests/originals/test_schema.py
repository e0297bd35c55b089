# SPDX-License-Identifier: Apache-2.0
"""What GET gives of a graph is a graph by the original's schema, as its library checks it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import httpx
import jsonschema

from tests.originals.nffg_schema import SCHEMA, faults
from tests.originals.samples import LAN, SAMPLES, WAN, Json, interface, rule
from tests.originals.test_clients import node


def as_the_library_writes(document: Json) -> Json:
    """A sample as an orchestrator sends it, which checks what it sends by the schema.

    It has no id, no node's settings and no keys of other clients; each VNF says what it is for, and
    each rule has a priority.
    """
    made = copy.deepcopy(document)
    inner = made["forwarding-graph"]
    for key in ("id", "node-config"):
        inner.pop(key, None)
    for vnf in inner.get("VNFs", []):
        vnf.setdefault("functional-capability", vnf.get("name", "example"))
        for key in ("description", "functional_capability", "user_data"):
            vnf.pop(key, None)
    for point in inner["end-points"]:
        old = point.get("interface", {})
        if "interface" in old:
            old["if-name"] = old.pop("interface")
        host = point.get("host-stack", {})
        if "ipv4" in host:
            host["IPv4"] = host.pop("ipv4")
    for one in inner["big-switch"]["flow-rules"]:
        one.setdefault("priority", 20000)
    return made


def every_key() -> Json:
    """A graph with each key that the schema has and this node carries out."""
    match = {
        "ether_type": "0x800", "vlan_id": "25", "source_mac": "02:00:00:00:00:01",
        "dest_mac": "02:00:00:00:00:02", "source_ip": "10.0.0.1", "dest_ip": "10.0.0.2",
        "protocol": "17", "source_port": "1", "dest_port": "2", "hard_timeout": "60",
        "vlan_priority": "3", "tos_bits": "8",
    }  # fmt: skip
    changes: list[Json] = [
        {"pop_vlan": True},
        {"set_ethernet_src_address": "02:00:00:00:00:03"},
        {"set_ethernet_dst_address": "02:00:00:00:00:04"},
        {"set_ip_src_address": "10.0.0.3"},
        {"set_ip_dst_address": "10.0.0.4"},
        {"set_l4_src_port": "3"},
        {"set_l4_dst_port": "4"},
    ]
    arp = {"port_in": "endpoint:wan", "ether_type": "0x806", "arp_spa": "10.0.0.1"}
    vnf = {
        "id": "v",
        "name": "example",
        "functional-capability": "example",
        "vnf_template": "example",
        "domain": "UN1",
        "groups": ["one"],
        "gui-position": {"x": 1, "y": 2},
        "ports": [
            {
                "id": "inout:0",
                "name": "inside",
                "mac": "02:00:00:00:00:05",
                "trusted": True,
                "gui-position": {"x": 3, "y": 4},
            },
            {"id": "inout:1"},
        ],
    }
    tagged = {"vlan-id": "40", "if-name": LAN, "node-id": "10.0.0.9"}
    points = [
        interface("wan", WAN, **{"node-id": "10.0.0.9"}),
        {"id": "lan", "type": "vlan", "vlan": tagged, "gui-position": {"x": 5, "y": 6}},
        {"id": "all", "type": "internal", "name": "all", "internal": {"internal-group": "1"}},
        {"id": "out", "type": "interface-out", "interface-out": {"if-name": WAN}},
    ]
    rules: list[Json] = [
        rule("1", "endpoint:wan", "vnf:v:inout:0", match=match, priority=9, description="to v"),
        rule("2", "endpoint:lan", "vnf:v:inout:1", priority=1),
        rule("3", "vnf:v:inout:1", "endpoint:lan", priority=1),
        rule("4", "endpoint:all", "vnf:v:inout:0", priority=1),
        {"id": "5", "priority": 9, "match": {**arp, "arp_tpa": "10.0.0.7"},
         "actions": [{"drop": True}]},
        {"id": "6", "priority": 1, "match": {"port_in": "vnf:v:inout:0"}, "actions": [
            {"push_vlan": "25"}, {"set_vlan_id": "26"}, {"set_vlan_priority": "1"},
            {"output_to_port": "endpoint:wan"}, {"output_to_port": "endpoint:all"}]},
    ]  # fmt: skip
    rules[0]["actions"] = [*changes, *rules[0]["actions"]]
    return {
        "forwarding-graph": {
            "name": "all",
            "description": "each key",
            "domain": "UN1",
            "VNFs": [vnf],
            "end-points": points,
            "big-switch": {"flow-rules": rules},
        }
    }


SENT = {
    "every key": every_key(),
    "nothing in it": {"forwarding-graph": {}},
    **{sample.name: as_the_library_writes(sample.graph) for sample in SAMPLES if sample.wire},
}


def test_the_schema_tells_graphs_from_others() -> None:
    jsonschema.Draft4Validator.check_schema(SCHEMA)
    assert faults({}) and faults({"flow-graph": {}}) and faults({"forwarding-graph": {"id": "1"}})
    wrong: list[tuple[str, Any]] = [
        ("VNFs", [{"id": "v", "ports": []}]),
        ("VNFs", [{"id": "v", "ports": [], "functional-capability": "x", "vnf_template": None}]),
        ("end-points", [{"id": "e", "type": "vxlan"}]),
        ("end-points", [{"id": "e", "interface": {"interface": "p0"}}]),
        ("big-switch", {}),
        ("big-switch", {"flow-rules": [{"id": "1", "match": {}, "actions": []}]}),
        (
            "big-switch",
            {"flow-rules": [{"id": "1", "priority": "1", "match": {}, "actions": []}]},
        ),
    ]
    for key, value in wrong:
        assert faults({"forwarding-graph": {key: value}}), (key, value)


async def test_what_is_given_back_is_by_the_schema(rundir: Path) -> None:
    async with node(rundir) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        for name, document in SENT.items():
            assert faults(document) == [], name
            made = await http.post("/NF-FG", json=document)
            assert made.status_code == 201, (name, made.text)
            graph_id = made.json()["nffg-uuid"]
            path = f"/NF-FG/{graph_id}"
            assert faults((await http.get(path)).json()) == [], name
            updated = await http.put(path, json=SENT["nothing in it"])
            assert updated.status_code == 202, (name, updated.text)
            assert (await http.put(path, json=document)).status_code == 202, name
            (listed,) = (await http.get("/NF-FG")).json()["NF-FG"]
            assert listed.pop("nffg-uuid") == graph_id
            assert faults(listed) == [] and listed == document, name
            assert (await http.delete(path)).status_code == 204, name


async def test_nothing_is_added_to_other_dialects(rundir: Path) -> None:
    """A graph that is none by the schema comes back with the faults of its client alone."""
    async with node(rundir) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        for sample in (sample for sample in SAMPLES if sample.wire):
            made = await http.post("/NF-FG", json=sample.graph)
            path = f"/NF-FG/{made.json()['nffg-uuid']}"
            assert faults((await http.get(path)).json()) == faults(sample.graph), sample.name
            assert (await http.delete(path)).status_code == 204
