# SPDX-License-Identifier: Apache-2.0
"""Test 19: counters that move by exactly the packets sent, and an observability point."""

import asyncio
from typing import Any

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings
from headrace.conformance.frames import frame
from headrace.conformance.graphs import graph, interface, rule, vnf
from headrace.conformance.suite.passing import arrives
from headrace.conformance.target import Target

_THERE, _BACK = 37, 11
_TRIES = 30

Counted = dict[str, tuple[int | None, int | None]]


def _counted(content: Any) -> Counted:
    """Packets and bytes by rule, and by end-point and direction."""
    found: Counted = {}
    if not isinstance(content, dict):
        return found
    for row in content.get("rules", []):
        found[f"rule {row['id']}"] = row.get("packets"), row.get("bytes")
    for row in content.get("end-points", []):
        for direction in ("received", "sent"):
            counter = row.get(direction) or {}
            found[f"end-point {row['id']} {direction}"] = (
                counter.get("packets"), counter.get("bytes"),
            )  # fmt: skip
    return found


async def run(target: Target, findings: Findings) -> None:
    """Reads the counters, sends some more packets, and reads them again."""
    node = target.node
    node.need_own("counters")
    frames, (first, second) = target.need_frames()
    document = graph(
        "observed",
        [interface("a", first), interface("b", second)],
        [
            rule("there", "endpoint:a", "endpoint:b", "vnf:monitor:port:0"),
            rule("back", "endpoint:b", "endpoint:a"),
        ],
        [vnf("monitor", target.settings.passing)],
    )
    async with node.with_graph(document) as name:
        for source, sink in ((first, second), (second, first)):
            findings.demand(f"frames pass from {source} to {sink}",
                            await arrives(frames, source, sink), "yes", "none arrives")  # fmt: skip

        async def counters() -> Counted:
            return _counted((await node.rest.get(f"/NF-FG/{name}/statistics")).content)

        async def seen_by_monitor() -> int | None:
            answer = await node.rest.get(f"/node/vnfs/{name}/monitor/counters")
            ports = answer.member("ports")
            rows = ports.values() if isinstance(ports, dict) else ports or []
            values = [row.get("rx_packets") for row in rows]
            return None if not values or None in values else sum(values)

        before, seen = await _still(counters, target.settings.poll_s), await seen_by_monitor()
        if any(packets is None for packets, _ in before.values()):
            findings.note("the switch of this node does not count by rule")
        there = [(first, frame(size=64 + 8 * number)) for number in range(_THERE)]
        back = [(second, frame(size=200)) for _ in range(_BACK)]
        octets = sum(len(each.octets) for _, each in there), sum(len(e.octets) for _, e in back)
        came = await frames.exchange([*there, *back], expected=_THERE + _BACK)
        findings.equal("frames that came out", (_THERE, _BACK),
                       (len(came[second]), len(came[first])))  # fmt: skip
        expected = {
            "rule there": (_THERE, octets[0]),
            "rule back": (_BACK, octets[1]),
            "end-point a received": (_THERE, octets[0]),
            "end-point a sent": (_BACK, octets[1]),
            "end-point b received": (_BACK, octets[1]),
            "end-point b sent": (_THERE, octets[0]),
        }

        def grown(after: Counted) -> Counted:
            def minus(name: str, index: int) -> int | None:
                new, old = (found.get(name, (None, None))[index] for found in (after, before))
                return None if new is None or old is None else new - old

            return {each: (minus(each, 0), minus(each, 1)) for each in expected}

        after = await counters()
        for _ in range(_TRIES):
            if grown(after) == expected:
                break
            await asyncio.sleep(target.settings.poll_s)
            after = await counters()
        for each, (packets, count) in grown(after).items():
            findings.equal(f"{each}: packets more", expected[each][0], packets)
            findings.equal(f"{each}: octets more", expected[each][1], count)
        last = await seen_by_monitor()
        if seen is None or last is None:
            findings.note("the engine of the monitoring VNF doesn't count packets")
        else:
            findings.equal("packets more that the monitoring VNF has seen", _THERE, last - seen)


async def _still(counters: Any, poll_s: float) -> Counted:
    """The counters once they no longer move: some switches count with a delay."""
    last: Counted = await counters()
    for _ in range(_TRIES):
        await asyncio.sleep(poll_s)
        now: Counted = await counters()
        if now == last:
            break
        last = now
    return last


CASES = (
    Case(
        19, "URM: Monitoring support and data report", Part.FUNCTIONS,
        "The node is up; a graph joins two ports, and gives a VNF that observes a copy of what "
        "goes one way.",
        (f"The counters are read, {_THERE} frames are sent one way and {_BACK} the other, and the "
         "counters are read again.",
         "The counters of the observing VNF are compared with what was sent."),
        "Each counter has moved by exactly the packets and octets that were sent; the VNF has seen "
        "each packet once.",
        run,
    ),
)  # fmt: skip
