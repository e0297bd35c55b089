# SPDX-License-Identifier: Apache-2.0
"""Tests 18 and 21: LSI-0, and what of the traffic outside belongs to which graph."""

from typing import Any

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings
from headrace.conformance.frames import frame, without_tags
from headrace.conformance.graphs import between, interface, vlan
from headrace.conformance.packets import Frames
from headrace.conformance.suite.passing import arrives, stays_away
from headrace.conformance.target import Target

_EACH = 10


async def _where(frames: Frames, source: str, tags: tuple[int, ...]) -> dict[str, int]:
    """How many of some frames come out of each port."""
    sent = [(source, frame(tags=tags)) for _ in range(_EACH)]
    came = await frames.exchange(sent)
    return {port: len(found) for port, found in came.items() if found}


async def isolation(target: Target, findings: Findings) -> None:
    """Test 18."""
    node = target.node
    frames, (first, second, third) = target.need_frames(3)
    if node.dialect.own:
        lsi0 = await node.member("/node", "switch", "lsi0")
        rows: list[dict[str, Any]] = (await node.rest.get("/node/switch/ports")).content or []
        here = {row.get("ofport") for row in rows if row.get("lsi") == lsi0}
        listed: list[dict[str, Any]] = (await node.rest.get("/node/ports")).content or []
        ports = {str(port["name"]) for port in listed if port.get("ofport") in here}
        findings.holds("LSI-0 is there, with the physical ports", set(frames.ports) <= ports,
                       set(frames.ports), ports)  # fmt: skip
    one = between(vlan("a", first, 101), vlan("b", second, 101), "isolated 101")
    other = between(vlan("a", first, 102), vlan("b", third, 102), "isolated 102")
    async with node.with_graph(other):
        name = await node.bring(one)
        for tag, sink in ((101, second), (102, third)):
            await arrives(frames, first, sink, (tag,))
            findings.equal(f"of {_EACH} frames with VLAN {tag} all come out at {sink} alone",
                           {sink: _EACH}, await _where(frames, first, (tag,)))  # fmt: skip
        for tags, what in (((103,), "of a VLAN that no graph has"), ((), "without a tag")):
            findings.equal(f"of {_EACH} frames {what} none comes out", {},
                           await _where(frames, first, tags))  # fmt: skip
        await node.remove(name)
        findings.holds("without its graph VLAN 101 passes no more",
                       await stays_away(frames, first, second, (101,)), "nothing",
                       "frames")  # fmt: skip
        findings.equal("while the other graph's goes on", {third: _EACH},
                       await _where(frames, first, (102,)))  # fmt: skip


async def steering(target: Target, findings: Findings) -> None:
    """Test 21."""
    node = target.node
    frames, (first, second) = target.need_frames(2)

    async def through(source: str, sink: str, tags: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The tags of what comes out; nothing else of the frames may have changed."""
        if not await arrives(frames, source, sink, tags):
            return []
        sent = [frame(tags=tags) for _ in range(_EACH)]
        came = await frames.exchange([(source, each) for each in sent], expected=_EACH)
        plain = {without_tags(each.octets) for each in sent}
        whole = [each for each in came[sink] if without_tags(each.octets) in plain]
        return [each.tags for each in whole]

    findings.equal("before there is a graph nothing passes", {},
                   await _where(frames, first, (201,)))  # fmt: skip
    async with node.with_graph(between(vlan("a", first, 201), interface("b", second), "pop, push")):
        findings.equal("VLAN 201 comes out without a tag", [()] * _EACH,
                       await through(first, second, (201,)))  # fmt: skip
        findings.equal("and what has none comes out with it", [(201,)] * _EACH,
                       await through(second, first, ()))  # fmt: skip
    async with node.with_graph(between(vlan("a", first, 202), vlan("b", second, 203), "retag")):
        findings.equal("VLAN 202 comes out as 203", [(203,)] * _EACH,
                       await through(first, second, (202,)))  # fmt: skip
        findings.equal("and 203 as 202", [(202,)] * _EACH,
                       await through(second, first, (203,)))  # fmt: skip
    findings.holds("without the graph nothing passes any more",
                   await stays_away(frames, first, second, (202,)), "nothing",
                   "frames")  # fmt: skip


_BOOTED = "The node is up; three of its ports are cabled to the tests."

CASES = (
    Case(
        18, "URM: Configuration of external connection to other nodes", Part.FUNCTIONS, _BOOTED,
        ("The ports of LSI-0 are asked for.",
         "Two graphs take a VLAN each of one port, and lead it to a port each.",
         "Frames of both, of a third VLAN and without a tag are sent; what comes out of all ports "
         "is captured.",
         "One graph is deleted; the same."),
        "LSI-0 has all physical ports. Each graph's frames come out at its port alone, those that "
        "are no graph's nowhere.",
        isolation,
    ),
    Case(
        21, "VSE: External traffic steering", Part.FUNCTIONS, _BOOTED,
        ("Frames are sent and captured before there is a graph, with a graph from a VLAN to an "
         "untagged port, with one from a VLAN to another, and after it.",),
        "Tags are taken off where traffic enters and put on where it leaves, the rest of each "
        "frame is unchanged, and nothing passes without a graph.",
        steering,
    ),
)  # fmt: skip
