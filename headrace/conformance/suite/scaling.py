# SPDX-License-Identifier: Apache-2.0
"""Test 13: a VNF gets more resources when its load rises, loses nothing, and gives them back.

The VNF computes so long for each packet that a few thousand packets per second load it: the rings
before it then hold all that comes while the machine does something else, and loss is the node's.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings
from headrace.conformance.graphs import Graph, chain, inner, interface, vnf
from headrace.conformance.packets import Loads, Measured, Read, Stream
from headrace.conformance.suite.load_sweep import passes
from headrace.conformance.target import Target

_UNITS = 2000
_FLOWS = 64
_RISING = (0.03, 0.1, 0.25, 0.5)
_SCALING = {
    "max-replicas": 2, "up": 0.2, "down": 0.1, "for-s": 1, "cool-down-s": 1, "quiet-s": 1,
    "stateless": True,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A load, the replicas that the VNF came to have under it, and what came of the packets."""

    share: float
    replicas: int
    measured: Measured


def _graph(loads: Loads, template: str) -> Graph:
    source, sink = loads.ports
    scaled = vnf("v", template)
    scaled["scaling"] = dict(_SCALING)
    scaled["configuration"] = {"units": _UNITS}
    return chain(interface("a", source), interface("b", sink), [scaled], "scaled")


async def _replicas(target: Target, name: str) -> list[str]:
    """The replicas of the VNF, by the status of its graph."""
    rows: list[dict[str, Any]] = (await target.node.status(name)).member("vnfs") or []
    ids = [str(row.get("id")) for row in rows if row.get("running")]
    return sorted(each for each in ids if each == "v" or each.startswith("v~"))


async def _settled(target: Target, name: str) -> int | None:
    """How many replicas there are; None while the graph is being changed."""
    if (await target.node.status(name)).member("status") != "complete":
        return None
    return len(await _replicas(target, name))


async def run(target: Target, findings: Findings) -> None:
    """Raises the load step by step, and looks at what the VNF gets."""
    node = target.node
    node.need_own("scaling of VNFs")
    loads = target.need_loads()
    source, sink = loads.ports
    stream = Stream("s", source, sink, flows=_FLOWS)
    plain = _graph(loads, target.settings.computing)
    del inner(plain)["VNFs"][0]["scaling"]
    async with node.with_graph(plain):
        await passes(loads, stream)
        alone = await loads.load([stream], None, max(0.3, target.settings.duration_s))
    findings.demand("the VNF passes packets", alone.pps > 0, "more than 0 pps", alone.pps)

    async with node.with_graph(_graph(loads, target.settings.computing)) as name:

        async def step(share: float, wanted: int | None, flows: Stream = stream) -> Step:
            async def look(_: Read) -> None:
                end = asyncio.get_running_loop().time() + target.settings.scale_s
                while wanted is not None and await _settled(target, name) != wanted:
                    if asyncio.get_running_loop().time() > end:
                        break
                    await asyncio.sleep(target.settings.poll_s)

            measured = await loads.load(
                [flows], share * alone.pps, 2 * target.settings.duration_s, look
            )
            return Step(share, len(await _replicas(target, name)), measured)

        await passes(loads, stream)
        steps = [await step(share, None) for share in _RISING[:-1]]
        findings.equal("replicas under a low load", 1, steps[0].replicas)
        steps.append(await step(_RISING[-1], 2))
        findings.equal(f"replicas at {_RISING[-1]:.0%} of what one can do", 2, steps[-1].replicas)
        before = await _packets(target, name)
        # Flows that were there may stay where they are; new ones go to the new replica as well.
        new = Stream("s", source, sink, flows=_FLOWS, targets="198.19.64.1")
        steps.append(await step(_RISING[-1], None, new))
        after = await _packets(target, name)
        for each, count in after.items():
            findings.holds(f"packets go to replica {each}", count > before.get(each, 0),
                           "more than before", f"{count - before.get(each, 0)} more")  # fmt: skip
        steps.append(await step(_RISING[0], 1))
        findings.equal("replicas when the load has fallen", 1, steps[-1].replicas)
    for one in steps:
        findings.equal(f"packets lost at {one.share:.0%}, of {one.measured.intended}", 0,
                       one.measured.lost)  # fmt: skip
    findings.table(
        "Scaling",
        ("share of one VNF's rate", "pps", "replicas", "sent", "lost", "p99 us"),
        [
            (f"{s.share:.0%}", round(s.share * alone.pps), s.replicas, s.measured.intended,
             s.measured.lost, round((s.measured.latency_p99 or 0) / 1e3))
            for s in steps
        ],
    )  # fmt: skip


async def _packets(target: Target, name: str) -> dict[str, int]:
    """Packets that each replica has worked on."""
    found = {}
    for each in await _replicas(target, name):
        count = await target.node.member(f"/node/vnfs/{name}/{each}/cycles", "packets")
        found[each] = int(count or 0)
    return found


CASES = (
    Case(
        13, "URM: Local scaling", Part.FUNCTIONS,
        "The node is up; a graph has a VNF that computes for each packet and may have two "
        "replicas.",
        ("The load is raised step by step, while the VNF's replicas are asked for.",
         "It is taken back."),
        "The VNF gets a second replica as the load rises, which gets packets, and gives it back; "
        "no packet is lost.",
        run, loaded=True,
    ),
)  # fmt: skip
