# SPDX-License-Identifier: Apache-2.0
"""Test 16: each virtual execution environment of the node runs a VNF that passes packets."""

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings, Stopped
from headrace.conformance.graphs import chain, interface, vnf
from headrace.conformance.suite.passing import both_ways
from headrace.conformance.target import Target

ENGINES = {
    "process": ("dpdk", "process"),
    "container": ("docker", "container"),
    "vm": ("virtual-machine-kvm", "kvm", "vm"),
    "native": ("native",),
}
"""Engines by the originals' types of VNFs."""

_KNOWN = ("pass", "pass-container", "bridge")
"""Templates of a Headrace node that pass packets as they are."""


async def _templates(target: Target) -> dict[str, str]:
    """A template that passes packets for each engine that has one."""
    wanted = (*target.given_templates, *_KNOWN)
    found: dict[str, str] = {}
    listed = dict(await target.node.templates())
    for name in (name for name in wanted if name in listed):
        kind = str(listed[name].get("vnf-type"))
        for engine, kinds in ENGINES.items():
            if kind in kinds:
                found.setdefault(engine, name)
    return found


async def run(target: Target, findings: Findings) -> None:
    """Deploys the same graph on each engine in turn."""
    node = target.node
    node.need_own("the execution environment in which a VNF runs")
    frames, ports = target.need_frames()
    engines = await node.member("/node", "engines") or {}
    findings.demand("the node says which engines it has", bool(engines), "engines", engines)
    templates = await _templates(target)
    tried, without = 0, list[str]()
    for engine in engines:
        if engine not in templates:
            without.append(str(engine))
            continue
        tried += 1
        document = chain(
            interface("a", ports[0]), interface("b", ports[1]), [vnf("v", templates[engine])]
        )
        try:
            async with node.with_graph(document) as name:
                status = await node.status(name)
                findings.equal(
                    f"{templates[engine]}: the engine that runs it",
                    engine,
                    status.member("vnfs", 0, "engine"),
                )
                await both_ways(findings, f"engine {engine}", frames, ports)
        except Stopped as stopped:
            findings.holds(f"engine {engine}: a graph is deployed", False, "yes", str(stopped))
    if without:
        findings.note(
            f"no template of {', '.join(without)} in the repository is known to pass packets; give "
            "one by --template"
        )
    findings.holds("engines that were tried", tried > 0, "at least one", tried)


CASES = (
    Case(
        16, "URM: Support to multiple VEE solutions", Part.FUNCTIONS,
        "The node is up, with a template for each of its engines.",
        ("A graph with a VNF between two ports is deployed on each engine in turn (DPDK process, "
         "container, virtual machine, native function).",
         "Its status is asked for; frames are sent both ways."),
        "The VNF runs in the engine that was asked for, and passes all frames.",
        run,
    ),
)  # fmt: skip
