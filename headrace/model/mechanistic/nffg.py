# SPDX-License-Identifier: Apache-2.0
"""The paths of packets through an NF-FG, by its rules, as the model needs them.

Packets come from each end-point that a rule matches. A rule's output is a VNF's port or an
end-point; what enters a VNF by one port leaves it by the others that rules match (by the same if it
has no other). Where there are several ways, packets are divided evenly, and the answer says so: the
document does not say how much traffic takes which.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

ADDRESSES = {
    "source_ip": ("ipv4_src_mask", "ipv6_src_mask"),
    "dest_ip": ("ipv4_dst_mask", "ipv6_dst_mask"),
    "ipv4_src": ("ipv4_src_mask",),
    "ipv4_dst": ("ipv4_dst_mask",),
    "ipv6_src": ("ipv6_src_mask",),
    "ipv6_dst": ("ipv6_dst_mask",),
}
"""Keys of a match that hold an address or a prefix of addresses, and those of its mask."""
MAX_VNFS = 64
MAX_PATHS = 256
_VNF = re.compile(r"^vnf:([^:]+):(.+)$")


class NotAGraph(Exception):
    """The document is no NF-FG with paths; the message says why."""


@dataclass(frozen=True)
class Route:
    """One path: its VNFs by id, its share of the packets, whether that share is a guess."""

    vnfs: tuple[str, ...]
    share: float
    guessed: bool


def graph_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `forwarding-graph` of a document, or the document itself if it is one.

    Raises:
        NotAGraph: it is neither.
    """
    graph = document.get("forwarding-graph", document)
    if not isinstance(graph, dict) or not isinstance(graph.get("big-switch"), dict):
        raise NotAGraph("no NF-FG: it needs forwarding-graph with big-switch and flow-rules")
    return graph


def routed(document: Mapping[str, Any]) -> bool:
    """Whether rules match prefixes of IP addresses, so that a table of prefixes is looked up.

    Raises:
        NotAGraph: it is no NF-FG.
    """
    for rule in graph_of(document)["big-switch"].get("flow-rules") or []:
        match = rule.get("match") if isinstance(rule, dict) else None
        if not isinstance(match, dict):
            continue
        for name, masks in ADDRESSES.items():
            mask = next((match[one] for one in masks if match.get(one)), None)
            address = match.get(name)
            if isinstance(address, str) and _is_prefix(f"{address}/{mask}" if mask else address):
                return True
    return False


def _is_prefix(address: str) -> bool:
    """Whether an address leaves some of its bits open."""
    try:
        network = ip_network(address, strict=False)
    except ValueError:
        return False
    return network.prefixlen < network.max_prefixlen


def _outputs(rule: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for action in rule.get("actions") or []:
        if not isinstance(action, dict):
            continue
        for name in ("output_to_port", "output"):
            if isinstance(action.get(name), str):
                found.append(action[name])
        several = action.get("output_to_one_of")
        if isinstance(several, list):
            found += [one if isinstance(one, str) else str(one.get("port")) for one in several]
    return found


def routes(document: Mapping[str, Any]) -> list[Route]:
    """The paths of a document; their shares add up to 1.

    Raises:
        NotAGraph: it is no NF-FG, or no packet comes through it.
    """
    switch = graph_of(document)["big-switch"]
    rules = switch.get("flow-rules") or []
    out: dict[str, list[str]] = {}
    for rule in rules:
        if not isinstance(rule, dict):
            continue
        port = (rule.get("match") or {}).get("port_in")
        if isinstance(port, str):
            known = out.setdefault(port, [])
            known += [one for one in _outputs(rule) if one not in known]
    sources = [port for port in out if port.startswith("endpoint:")]
    if not sources:
        raise NotAGraph("no rule matches an end-point: no packet comes into the graph")
    found: list[Route] = []
    for source in sources:
        _walk(out, source, (), 1.0 / len(sources), len(sources) > 1, found)
    total = sum(route.share for route in found)
    if not found or total <= 0:
        raise NotAGraph("no rules lead from an end-point to another: no packet comes through")
    merged: dict[tuple[str, ...], tuple[float, bool]] = {}
    for route in found:
        share, guessed = merged.get(route.vnfs, (0.0, False))
        merged[route.vnfs] = (share + route.share / total, guessed or route.guessed)
    return [Route(vnfs, share, guessed) for vnfs, (share, guessed) in merged.items()]


def _walk(
    out: Mapping[str, list[str]],
    port: str,
    passed: tuple[str, ...],
    share: float,
    guessed: bool,
    found: list[Route],
) -> None:
    targets = out.get(port, [])
    if len(passed) > MAX_VNFS or len(found) >= MAX_PATHS or not targets:
        return
    for target in targets:
        part, split = share / len(targets), guessed or len(targets) > 1
        vnf = _VNF.match(target)
        if vnf is None:
            found.append(Route(passed, part, split))
            continue
        prefix = f"vnf:{vnf[1]}:"
        ways = [one for one in out if one.startswith(prefix) and one != target]
        ways = ways or [one for one in out if one == target]
        for way in ways:
            several = split or len(ways) > 1
            _walk(out, way, (*passed, vnf[1]), part / len(ways), several, found)


def functions(
    document: Mapping[str, Any], of: Callable[[Mapping[str, Any]], str]
) -> dict[str, str]:
    """By VNF id its function, as `of` says it for the VNF's part of the document."""
    vnfs = graph_of(document).get("VNFs") or []
    return {str(vnf["id"]): of(vnf) for vnf in vnfs if isinstance(vnf, dict) and "id" in vnf}


def named_function(vnf: Mapping[str, Any]) -> str:
    """A VNF's function by its own words: template, capability or name."""
    for name in ("vnf_template", "functional-capability", "functional_capability", "name"):
        if vnf.get(name):
            return str(vnf[name])
    return "unknown"
