# SPDX-License-Identifier: Apache-2.0
"""Tests 11 and 12: the resources as the layer above is told of them, at first and at changes."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings
from headrace.conformance.graphs import chain, interface, vnf, wire
from headrace.conformance.resources import Reported, of_description, of_machine
from headrace.conformance.target import Target

_ROOT = "netgroup-domain:informations"
_CLOSE = 0.05
PROGRAMS = {"vm": "qemu-system-x86_64", "container": "runc", "native": "ip"}
"""What an engine needs on its host."""


async def _description(target: Target) -> Any:
    """The description that was last pushed, or what the node answers now.

    A node that began before these tests has pushed it before; a graph makes it do so again.
    """
    if not target.upper.takes_descriptions:
        return (await target.node.rest.get("/domain-information")).content
    told = await target.upper.told(0.0, "description", 0.0)
    if not told:
        async with target.node.with_graph(wire(*await target.two_ports())):
            told = await target.upper.told(0.0, "description", target.settings.notice_s)
    return told[-1].content if told else None


async def discover(target: Target, findings: Findings) -> None:
    """Test 11."""
    node = target.node
    node.need_own("the description that the originals publish on their message bus")
    pushed = target.upper.takes_descriptions
    content = await _description(target)
    findings.demand(
        "the layer above has the node's description"
        + (" (captured)" if pushed else " (GET /domain-information)"),
        isinstance(content, dict) and _ROOT in content, "a description",
        "one" if content else "nothing",
    )  # fmt: skip
    reported = of_description(content)
    inner = content[_ROOT]
    findings.equal("its type", "universal_node", inner.get("type"))
    if target.host is not None:
        processor, memory = await target.host.processor(), target.host.memory()
        own = (await node.rest.get("/node/resources")).content or {}
        cores = [core["core"] for core in own.get("cores", [])]
        findings.holds("cores: those of the node, of those of the machine (lscpu)",
                       reported.cpus == len(cores) <= processor.cpus,
                       f"{len(cores)} of {processor.cpus}", reported.cpus)  # fmt: skip
        given = (own.get("memory_mb") or {}).get("total")
        findings.holds("memory: what the node may give, of what there is (/proc/meminfo), octets",
                       reported.memory == (given or 0) << 20 <= memory.total,
                       f"{(given or 0) << 20} of {memory.total}", reported.memory)  # fmt: skip
        actual = of_machine(own)
        findings.near("memory in use on the machine, octets", memory.total - memory.available,
                      (actual.memory or 0) - (actual.free_memory or 0),
                      _CLOSE * memory.total)  # fmt: skip
        findings.equal("coprocessors (PCI)", target.host.accelerators(),
                       "not reported" if actual.accelerators is None
                       else sorted(actual.accelerators))  # fmt: skip
        for engine in await node.member("/node", "engines") or {}:
            program = PROGRAMS.get(str(engine))
            if program is not None:
                findings.holds(f"engine {engine}: {program} is installed",
                               target.host.has(program), "yes", "no")  # fmt: skip
        switch = str(await node.member("/node", "switch", "name"))
        findings.note(f"switch {switch}: {await node.member('/node', 'switch', 'version')}")
    names = {str(port.get("name")) for port in (await node.rest.get("/node/ports")).content or []}
    findings.equal("ports", names, set(reported.interfaces or ()))
    can = inner.get("capabilities", {})
    kinds = can.get("infrastructural-capabilities", {}).get("infrastructural-capability", [])
    findings.equal("types of end-points", set(await node.member("/node", "switch", "end_points")
                   or ()), {each.get("type") for each in kinds})  # fmt: skip
    vnfs = can.get("functional-capabilities", {}).get("functional-capability", [])
    findings.equal("VNFs", {name for name, _ in await node.templates()},
                   {each.get("template") for each in vnfs})  # fmt: skip


async def update(target: Target, findings: Findings) -> None:
    """Test 12."""
    node = target.node
    node.need_own("notices of change")
    passing = target.settings.passing
    first, second = await target.two_ports()
    points = interface("a", first), interface("b", second)
    kind = "description" if target.upper.takes_descriptions else "event"

    async def told(what: str, since: float, free: Callable[[int], bool]) -> Reported:
        """What is told, until what is free is as it has to be: a node may tell more than once."""
        notices = await target.upper.told(since, kind, target.settings.notice_s)
        findings.holds(f"{what}: the layer above is told ({kind})", bool(notices),
                       f"within {target.settings.notice_s:g} s",
                       f"{notices[0].at - since:.2f} s" if notices else "nothing")  # fmt: skip
        if kind == "description" and notices:
            end = since + target.settings.notice_s
            while True:
                last = (await target.upper.told(since, kind, 0.0))[-1]
                found = of_description(last.content)
                if free(found.free_memory or 0) or time.monotonic() > end:
                    return found
                await asyncio.sleep(target.settings.poll_s)
        return of_description((await node.rest.get("/domain-information")).content)

    before = of_description((await node.rest.get("/domain-information")).content)
    whole = before.free_memory or 0
    since = time.monotonic()
    name = await node.bring(chain(*points, [vnf("v", passing)]))
    one = await told("a graph with a VNF is deployed", since, lambda mb: mb < whole)
    _fewer(findings, "memory that is free is less with a VNF", one, before)
    since = time.monotonic()
    await node.change(name, chain(*points, [vnf("v", passing), vnf("w", passing)]))
    two = await told("it gets a second one", since, lambda mb: mb < (one.free_memory or 0))
    _fewer(findings, "and still less with two", two, one)
    since = time.monotonic()
    await node.remove(name)
    none = await told("it is deleted", since, lambda mb: mb == whole)
    findings.equal("memory that is free is as before", before.free_memory, none.free_memory)
    findings.equal("cores that are free are as before", before.free_cpus, none.free_cpus)


def _fewer(findings: Findings, what: str, after: Reported, before: Reported) -> None:
    new, old = after.free_memory, before.free_memory
    findings.holds(what, new is not None and old is not None and new < old, f"less than {old}", new)


CASES = (
    Case(
        11, "URM: Discover and report available resources", Part.FUNCTIONS, "The node is up.",
        ("The description that the node sends to the layer above is captured.",
         "Cores, memory, its use and coprocessors are compared with lscpu, /proc/meminfo and PCI; "
         "engines with the programs that they need; ports, types of end-points and VNFs with "
         "what the node itself says."),
        "The layer above is told of what there is.",
        discover,
    ),
    Case(
        12, "URM: Update available resources", Part.FUNCTIONS,
        "The node is up; the layer above listens.",
        ("A graph with a VNF is deployed, gets a second VNF, and is deleted; after each, what the "
         "layer above is told is captured.",),
        "It is told of each change; what is free gets less and less, and is as before at the end.",
        update,
    ),
)  # fmt: skip
