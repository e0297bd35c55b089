# SPDX-License-Identifier: Apache-2.0
"""What the original's published schema of graphs says, from its facts: types, and what must be.

The schema (nffg-library, draft-04, of July 2017) has no licence, so it is not here; this says in
our own form which keys an object may have. `!` marks a key without which a graph is refused.
"""

from __future__ import annotations

from typing import Any

import jsonschema

_TEXTS = {"text": "string", "flag": "boolean", "number": "integer"}

_MATCH = (
    "port_in hard_timeout ether_type vlan_id vlan_priority arp_spa arp_tpa source_mac dest_mac "
    "source_ip dest_ip tos_bits source_port dest_port protocol"
)
_ACTION = (
    "output_to_port push_vlan set_vlan_id set_vlan_priority set_ethernet_src_address "
    "set_ethernet_dst_address set_ip_src_address set_ip_dst_address set_ip_tos set_l4_src_port "
    "set_l4_dst_port output_to_queue"
)
_POINT_TYPES = ["interface", "interface-out", "vlan", "gre-tunnel", "internal", "host-stack"]


def _of(*parts: str | dict[str, Any]) -> dict[str, Any]:
    """An object without other keys: `"text a b! c"` lists those of one type."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in parts:
        if isinstance(part, str):
            kind, *names = part.split()
            words = {name: {"type": _TEXTS[kind]} for name in names}
        else:
            words = part
        for name, schema in words.items():
            properties[name.rstrip("!")] = schema
            if name.endswith("!"):
                required.append(name.rstrip("!"))
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required  # draft 4 allows no empty list
    return {**made, "additionalProperties": False}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_PLACE = _of("number x y")
_INTERFACE = _of("text if-name! node-id")
_PORT = _of("text id! name mac unify-ip", "flag trusted", {"gui-position": _PLACE})
_VNF = _of(
    "text id! name functional-capability! vnf_template domain",
    {
        "ports!": _list(
            _of("text id! name mac unify-ip", "flag trusted", {"gui-position": _PLACE})
        ),
        "unify-control": _list(_of("number host-tcp-port! vnf-tcp-port!")),
        "unify-env-variables": _list(_of("text variable!")),
        "groups": {"type": "array"},
        "gui-position": _PLACE,
    },
)
_END_POINT = _of(
    "text id! name domain",
    {
        "type": {"enum": _POINT_TYPES},
        "interface": _INTERFACE,
        "interface-out": _INTERFACE,
        "vlan": _of("text vlan-id! if-name! node-id"),
        "internal": _of("text internal-group! node-id"),
        "gre-tunnel": _of("text local-ip! remote-ip! gre-key! ttl", "flag secure"),
        "host-stack": _of(
            "text IPv4 mac", {"configuration!": {"enum": ["DHCP", "static", "pppoe"]}}
        ),
        "gui-position": _PLACE,
    },
)
_RULE = _of(
    "text id! description",
    "number priority!",
    {
        "match!": _of(f"text {_MATCH}"),
        "actions!": _list(_of(f"text {_ACTION}", "flag pop_vlan drop output_to_controller")),
    },
)
SCHEMA = _of(
    {
        "forwarding-graph!": _of(
            "text name description domain unify-monitoring",
            {
                "VNFs": _list(_VNF),
                "end-points": _list(_END_POINT),
                "big-switch": _of({"flow-rules!": _list(_RULE)}),
            },
        )
    }
)


def faults(document: Any) -> list[str]:
    """Where a document is not what the schema says, each with the reason, in order."""
    checker = jsonschema.Draft4Validator(SCHEMA)
    return sorted(
        f"{'/'.join(map(str, one.absolute_path))}: {one.message}"
        for one in checker.iter_errors(document)
    )
