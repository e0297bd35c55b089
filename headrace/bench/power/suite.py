# SPDX-License-Identifier: Apache-2.0
"""What the server draws idle, with a switch that polls, and at each load; joules of a packet.

A poller draws power whether packets come or not, so three things are told apart: the server
without any switch, a switch that polls without a packet, and the same at shares of the rate that
it reaches. Energy of a packet is the whole power over the rate, as in D5.6.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.bench.power.bed import running
from headrace.bench.power.readers import NoPower, Reader, between, readers
from headrace.bench.rows import Row, row, skipped

SHARES = (0.25, 0.5, 1.0)
"""Of the rate under overload; the last is overload itself."""
IDLE, NO_LOAD = "server idle", "switch polls without load"

Say = Callable[[str], None]
Watts = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Plan:
    """How often and how long to look."""

    repeats: int = 5
    seconds: float = 5.0


class Loaded(Protocol):
    """A switch that can be stopped and given a load."""

    @property
    def name(self) -> str:
        """The switch's."""

    def park(self) -> None:
        """Takes no more of its core."""

    def resume(self) -> None:
        """Runs on."""

    async def rate(self, pps: float | None, seconds: float) -> float:
        """Packets per second delivered under a load (None: as fast as possible) for a while."""


def states() -> list[str]:
    """What is measured, in the order of the rows."""
    return [IDLE, NO_LOAD, *(f"at {100 * share:.0f} % of its rate" for share in SHARES)]


def nothing(reasons: Sequence[str]) -> list[Row]:
    """The rows of a machine without a meter."""
    reason = f"no power meter: {'; '.join(reasons)}"
    rows = [skipped(f"{state} power", "W", reason) for state in states()]
    return [*rows, *(skipped(f"{state} energy", "uJ/packet", reason) for state in states()[2:])]


async def _mean_watts(reader: Reader, seconds: float) -> float:
    first = await asyncio.to_thread(reader.read)
    await asyncio.sleep(seconds)
    return between(first, await asyncio.to_thread(reader.read))


async def measure(reader: Reader, bed: Loaded, plan: Plan, say: Say) -> list[Row]:
    """The rows of one reader, states in turn in each repeat.

    Raises:
        NoPower: the reader has ceased to work.
    """
    watts: dict[str, list[float]] = {state: [] for state in states()}
    rates: dict[str, list[float]] = {state: [] for state in states()[2:]}
    bed.resume()
    top = await bed.rate(None, plan.seconds)
    for repeat in range(plan.repeats):
        bed.park()
        watts[IDLE].append(await _mean_watts(reader, plan.seconds))
        bed.resume()
        watts[NO_LOAD].append(await _mean_watts(reader, plan.seconds))
        for state, share in zip(states()[2:], SHARES, strict=True):
            pps = None if share == 1.0 else share * top
            drawn, rate = await asyncio.gather(
                _mean_watts(reader, plan.seconds), bed.rate(pps, plan.seconds)
            )
            watts[state].append(drawn)
            rates[state].append(rate)
        say(f"{repeat + 1}/{plan.repeats} {reader.name}: {watts[state][-1]:.1f} W")
    bed.park()
    return list(rows_of(reader, bed.name, watts, rates))


def rows_of(reader: Reader, switch: str, watts: Watts, rates: Watts) -> Iterator[Row]:
    """Power of each state and energy of a packet at each load."""
    note = f"{switch}; {reader.name}: {reader.covers}"
    for state, samples in watts.items():
        yield row(f"{state} power", samples, "W", note=note)
    for state, samples in rates.items():
        pairs = zip(watts[state], samples, strict=True)
        energy = [1e6 * drawn / pps for drawn, pps in pairs if pps > 0]
        if energy:
            yield row(f"{state} energy", energy, "uJ/packet", note=note)
        else:
            yield skipped(f"{state} energy", "uJ/packet", "no packet came through")


async def run(plan: Plan, say: Say) -> tuple[list[Row], dict[str, Any]]:
    """`headrace bench power`: all rows of the first reader that works, or why there is none.

    Raises:
        PeerError: the switch can't be started.
    """
    found, reasons = readers()
    if not found:
        return nothing(reasons), {"readers": [], "reasons": reasons}
    reader = found[0]
    async with running() as bed:
        try:
            rows = await measure(reader, bed, plan, say)
        except NoPower as error:
            rows = nothing([str(error)])
    return rows, {"readers": [one.name for one in found], "reasons": reasons, "used": reader.name}
