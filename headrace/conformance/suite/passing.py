# SPDX-License-Identifier: Apache-2.0
"""Whether frames get from one port of a node to another: what several of the tests look at."""

import asyncio
from collections.abc import Sequence

from headrace.conformance.findings import Findings
from headrace.conformance.frames import Frame, frame
from headrace.conformance.packets import Frames

_TRIES = 5
_BETWEEN_S = 0.2


async def arrives(
    frames: Frames, source: str, sink: str, tags: tuple[int, ...] = (), target: str = "198.19.0.1"
) -> bool:
    """Whether a frame comes out at `sink`; a path may need a moment to come up."""
    for attempt in range(_TRIES):
        sent = frame(tags=tags, target=target)
        came = await frames.exchange([(source, sent)], expected=1)
        if any(each.number == sent.number for each in came[sink]):
            return True
        if attempt + 1 < _TRIES:
            await asyncio.sleep(_BETWEEN_S)
    return False


async def stays_away(
    frames: Frames, source: str, sink: str, tags: tuple[int, ...] = (), target: str = "198.19.0.1"
) -> bool:
    """Whether no frame comes out at `sink`; a switch that caches rules may need a moment."""
    for attempt in range(_TRIES):
        sent = frame(tags=tags, target=target)
        came = await frames.exchange([(source, sent)])
        if not came[sink]:
            return True
        if attempt + 1 < _TRIES:
            await asyncio.sleep(_BETWEEN_S)
    return False


async def both_ways(
    findings: Findings, what: str, frames: Frames, ports: Sequence[str], count: int = 20
) -> bool:
    """Records whether that many frames each way between two ports all arrive, once and whole."""
    first, second = ports
    if not (await arrives(frames, first, second) and await arrives(frames, second, first)):
        return findings.holds(f"{what}: frames pass between {first} and {second}", False, "yes",
                              "none arrives")  # fmt: skip
    sent: list[tuple[str, Frame]] = []
    for number in range(count):
        size = (64, 128, 512, 1514)[number % 4]
        sent += [(first, frame(size=size)), (second, frame(size=size))]
    came = await frames.exchange(sent, expected=len(sent))
    right = 0
    for source, one in sent:
        sink = second if source == first else first
        right += [each.octets for each in came[sink] if each.number == one.number] == [one.octets]
    total = sum(map(len, came.values()))
    return findings.holds(
        f"{what}: of {len(sent)} frames each arrives at the other port, once and unchanged",
        right == len(sent) == total,
        f"{len(sent)} of {len(sent)}",
        f"{right} right, {total} in all",
    )
