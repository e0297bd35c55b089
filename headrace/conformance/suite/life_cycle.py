# SPDX-License-Identifier: Apache-2.0
"""Test 14: the phases of an NF-FG's life, each verified by the API and by the traffic."""

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings
from headrace.conformance.graphs import chain, interface, rules_of, vnf
from headrace.conformance.suite.passing import arrives, both_ways, stays_away
from headrace.conformance.target import Target


async def run(target: Target, findings: Findings) -> None:
    """Deploys, updates and removes a graph with a VNF, while looking at where traffic goes."""
    node = target.node
    frames, (first, second, third) = target.need_frames(3)
    passing = vnf("v", target.settings.passing)
    before = chain(interface("a", first), interface("b", second), [passing])
    after = chain(interface("a", first), interface("b", third), [passing])

    name = await node.bring(before)
    if node.dialect.status:
        status = await node.status(name)
        findings.equal("deployed: status", "complete", status.member("status"))
        if node.dialect.own:
            _runs(findings, "deployed", status.member("vnfs"))
    await both_ways(findings, "deployed", frames, (first, second))
    findings.holds(f"deployed: nothing arrives at {third}",
                   await stays_away(frames, first, third), "nothing", "frames")  # fmt: skip

    await node.change(name, after)
    if node.dialect.status:
        status = await node.status(name)
        findings.equal("updated: status", "complete", status.member("status"))
        if node.dialect.own:
            _runs(findings, "updated", status.member("vnfs"))
    found = node.dialect.read(await node.data(name))
    if found is not None and node.dialect.name != "g0":
        ids = {str(rule["id"]) for rule in rules_of(found)}
        findings.equal("updated: rules", {str(rule["id"]) for rule in rules_of(after)}, ids)
    await both_ways(findings, "updated", frames, (first, third))
    findings.holds(f"updated: nothing more arrives at {second}",
                   await stays_away(frames, first, second), "nothing", "frames")  # fmt: skip

    await node.remove(name)
    findings.holds(
        "removed: there is no such graph", not (await node.data(name)).good, "no success",
        str((await node.data(name)).status),
    )  # fmt: skip
    findings.holds("removed: nothing passes any more",
                   await stays_away(frames, first, third), "nothing", "frames")  # fmt: skip
    again = await node.bring(before)
    findings.holds("deployed again: frames pass",
                   await arrives(frames, first, second), "yes", "none arrives")  # fmt: skip
    await node.remove(again)


def _runs(findings: Findings, when: str, vnfs: object) -> None:
    running = [vnf.get("running") for vnf in vnfs] if isinstance(vnfs, list) else []
    findings.equal(f"{when}: its VNF runs", "yes", "yes" if running == [True] else str(running))


CASES = (
    Case(
        14, "URM: NF-FG lifecycle management", Part.FUNCTIONS, "The node is up.",
        ("A graph with a VNF between two ports is deployed; its status is asked for, frames are "
         "sent both ways.",
         "It is updated to leave by another port; the same.",
         "It is removed; the same. It is deployed again."),
        "Status and traffic follow each phase: frames come out where the version in force says, "
        "and nowhere else.",
        run,
    ),
)  # fmt: skip
