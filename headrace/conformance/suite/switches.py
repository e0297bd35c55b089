# SPDX-License-Identifier: Apache-2.0
"""Tests 17 and 20: what the node says of its switches; LSIs that come and go with graphs."""

from typing import Any

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings, Stopped
from headrace.conformance.graphs import Graph, between, chain, graph, interface, rule, vlan, vnf
from headrace.conformance.rest import Answer
from headrace.conformance.target import Target, Unavailable, each_of

_KINDS = ("interface", "vlan", "internal", "gre-tunnel", "vxlan", "gtpu")


def _point(kind: str, port: str) -> Graph | None:
    """An end-point of a type that needs nothing but a port; None if it needs more."""
    if kind == "interface":
        return interface("b", port)
    if kind == "vlan":
        return vlan("b", port, 301)
    if kind == "internal":
        return {"id": "b", "type": "internal", "internal": {"internal-group": "conformance"}}
    if kind == "no-such-type":
        return {"id": "b", "type": kind, kind: {"if-name": port}}
    return None


async def _switches(target: Target) -> list[str]:
    own = await target.node.member("/node", "switch", "name")
    others = target.others.switches() if target.others is not None else []
    return [str(own), *(name for name in others if name != own)]


async def information(target: Target, findings: Findings) -> None:
    """Test 17."""
    target.node.need_own("physical ports and switches")
    for switch in await _switches(target):
        try:
            async with each_of(target, switch) as one:
                await _information(one, findings, switch)
        except Unavailable as error:
            findings.holds(f"{switch}: a node starts with it", False, "yes", str(error))


async def _information(target: Target, findings: Findings, switch: str) -> None:
    node = target.node
    ports: list[dict[str, Any]] = (await node.rest.get("/node/ports")).content or []
    names = {str(port.get("name")) for port in ports}
    cabled = set(target.frames.ports) if target.frames else set()
    findings.holds(f"{switch}: its physical ports", bool(names) and cabled <= names,
                   cabled or "ports", names)  # fmt: skip
    kinds = [port.get("kind") for port in ports]
    findings.holds(f"{switch}: each port has a kind", all(kinds), "kinds", kinds)
    if target.host is not None:
        links = await target.host.links()
        named = {str(port["attach"]["iface"]) for port in ports
                 if (port.get("attach") or {}).get("iface")}  # fmt: skip
        findings.holds(f"{switch}: the kernel's interfaces that it names exist (ip link)",
                       named <= set(links), named, named & set(links))  # fmt: skip
    said = await node.member("/node", "switch") or {}
    findings.holds(f"{switch}: it says name and version", bool(said.get("version")), "a version",
                   f"{said.get('name')} {said.get('version')}")  # fmt: skip
    declared = [kind for kind in said.get("end_points") or []]
    findings.holds(f"{switch}: it says what end-points it carries", "interface" in declared,
                   "interface and others", declared)  # fmt: skip
    first, second = sorted(cabled or names)[:2]
    for kind in (*_KINDS, "no-such-type"):
        point = _point(kind, second)
        if point is None:
            if kind in declared:
                findings.note(f"{switch}: {kind} needs addresses of a peer; not tried here")
            continue
        document = between(interface("a", first), point, f"end-point {kind}")
        if kind == "internal":
            document = graph(
                "end-point internal",
                [interface("a", first), point],
                [rule("1", "endpoint:a", "endpoint:b"), rule("2", "endpoint:b", "endpoint:a")],
            )
        answer, name = await node.deploy(node.name(), document)
        if answer.good:
            await node.remove(name)
        carried = kind in declared
        findings.holds(
            f"{switch}: a graph with a {kind} end-point is "
            + ("carried, as declared" if carried else "refused, as it is not declared"),
            answer.good if carried else answer.status == 400,
            "success" if carried else "400",
            _short(answer),
        )


def _short(answer: Answer) -> str:
    return str(answer.status) if answer.good else str(answer)


async def _lsis(target: Target) -> dict[str, set[str]]:
    """The LSIs with their ports, by the node's show command."""
    rows: list[dict[str, Any]] = (await target.node.rest.get("/node/switch/ports")).content or []
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(str(row.get("lsi")), set()).add(str(row.get("port")))
    return found


async def instances(target: Target, findings: Findings) -> None:
    """Test 20."""
    target.node.need_own("logical switch instances")
    for switch in await _switches(target):
        try:
            async with each_of(target, switch) as one:
                try:
                    await _instances(one, findings, switch)
                except Stopped as stopped:
                    findings.holds(f"{switch}: graphs are deployed", False, "yes", str(stopped))
        except Unavailable as error:
            findings.holds(f"{switch}: a node starts with it", False, "yes", str(error))


async def _instances(target: Target, findings: Findings, switch: str) -> None:
    node = target.node
    first, second = await target.two_ports()
    template = target.settings.passing
    before = await _lsis(target)
    points = interface("a", first), interface("b", second)
    name = await node.bring(chain(*points, [vnf("v", template)]))
    deployed = await _lsis(target)
    new = sorted(set(deployed) - set(before))
    findings.holds(f"{switch}: a graph has an LSI of its own", len(new) == 1, "one", new)
    if len(new) == 1:
        said = await node.member("/node", "switch") or {}
        what, least = (
            ("the VNF and towards LSI-0", 3) if said.get("links", True) else ("the VNF", 2)
        )
        findings.holds(f"{switch}: the LSI has ports for {what}", len(deployed[new[0]]) >= least,
                       f"at least {least}", len(deployed[new[0]]))  # fmt: skip
        await node.change(name, chain(*points, [vnf("v", template), vnf("w", template)]))
        updated = await _lsis(target)
        more = len(updated.get(new[0], set())) - len(deployed[new[0]])
        findings.equal(f"{switch}: a second VNF brings its LSI two ports more", 2, more)
        findings.equal(f"{switch}: and no further LSI", set(deployed), set(updated))
    await node.remove(name)
    findings.equal(f"{switch}: with the graph its LSI is gone", set(before),
                   set(await _lsis(target)))  # fmt: skip


CASES = (
    Case(
        17, "URM: Support to multiple VSE solutions", Part.FUNCTIONS,
        "The node is up, on each switch that this machine has.",
        ("The physical ports are asked for, and compared with the kernel's interfaces.",
         "The switch's version and capabilities are asked for.",
         "A graph is deployed with each type of end-point that needs a port alone."),
        "Ports and switch are described, and what is declared is so: a declared type of end-point "
        "is carried, another one is refused.",
        information,
    ),
    Case(
        20, "VSE: Dynamic deployment of LSI", Part.FUNCTIONS,
        "The node is up, on each switch that this machine has.",
        ("A graph with a VNF is deployed, and the LSIs are listed.",
         "It gets a second VNF; the same.",
         "It is deleted; the same."),
        "The graph has one LSI of its own; it gets the ports of the second VNF, and goes with the "
        "graph.",
        instances,
    ),
)  # fmt: skip
