# SPDX-License-Identifier: Apache-2.0
"""`headrace bench channels` as the command runs it: rounds over all kinds, then medians."""

import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bench.channels import figures, network
from headrace.bench.channels.kinds import CASES, FCS, KINDS, SIZES, Case, Kind, cases_of
from headrace.bench.channels.program import Channel, ChannelError, Window
from headrace.bench.channels.switch import Switch
from headrace.bench.manifest import machine, versions
from headrace.bench.peers.bed import place
from headrace.bench.peers.systems import Place
from headrace.bench.priority import raise_priority
from headrace.bench.rows import Row
from headrace.machine.programs import ProgramMissing, find_program

PRODUCER_CORE, CONSUMER_CORE = 0, 1
IN_TURN = ("direct", "ring")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Number and duration of the windows per kind and case.

    Attributes:
        turns: short windows of direct links, each beside one of the bare ring.
    """

    repeats: int = 5
    window_s: float = 0.3
    settle_s: float = 0.2
    turns: int = 24
    turn_s: float = 0.05
    turn_settle_s: float = 0.02


def find_channel_program() -> Path:
    """The path of headrace-channel in the build; ChannelError with the remedy if it is missing."""
    try:
        found = find_program("headrace-switch").parents[1] / "channel" / "headrace-channel"
    except ProgramMissing as error:
        raise ChannelError(str(error)) from error
    if not found.exists():
        raise ChannelError(f"{found} is missing; run `make build`")
    return found


def cores(kind: Kind) -> tuple[int, int]:
    """The cores of producer and consumer: a forwarding switch has the second one to itself."""
    shared = kind.switch_ports and not kind.links
    return (PRODUCER_CORE, PRODUCER_CORE if shared else CONSUMER_CORE)


def arguments(kind: Kind, folder: Path, group: Path) -> list[str]:
    """The whole command line of headrace-channel for a kind."""
    places = {"dir": str(folder), "group": str(group)}
    producer, consumer = cores(kind)
    return [
        *(word.format(**places) for word in kind.arguments),
        *("--producer-core", str(producer), "--consumer-core", str(consumer)),
        *(("--yield",) if producer == consumer else ()),
        *network.arguments(kind.network),
    ]


async def _round(
    kind: Kind, where: Place, switch: Switch, plan: Plan, program: Path
) -> dict[Case, Window]:
    """One window of each case of one kind."""
    windows: dict[Case, Window] = {}
    async with _opened(kind, where, switch, program) as channel:
        for case in cases_of(kind):
            window = await channel.measure(case, plan.window_s, plan.settle_s)
            check(kind, case, window)
            windows[case] = window
    return windows


@asynccontextmanager
async def _opened(
    kind: Kind, where: Place, switch: Switch, program: Path
) -> AsyncIterator[Channel]:
    """A channel, open; the switch is parked where packets don't pass it, and afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"{kind.name}-", dir=where.rundir) as folder:
        if kind.switch_ports:
            switch.join(kind.switch_ports, Path(folder), links=kind.links)
        words = arguments(kind, Path(folder), switch.group_socket)
        try:
            async with Channel(program, words, Path(folder) / "log") as channel:
                await network.before_open(kind.network, channel.ends)
                await channel.open()
                if kind.links:
                    switch.park()
                await network.after_open(kind.network, channel.ends)
                yield channel
        finally:
            if kind.switch_ports:
                switch.park()


async def _in_turn(
    kinds: Sequence[Kind], where: Place, switch: Switch, plan: Plan, program: Path
) -> dict[tuple[str, Case], list[float]]:
    """Rates of the kinds with all channels open at once, and windows that alternate.

    Windows of a round are seconds apart, in which a machine may change its speed by more than the
    kinds differ; these are a tenth of a second apart.
    """
    taken: dict[tuple[str, Case], list[float]] = {}
    async with AsyncExitStack() as stack:
        opened = [
            (kind, await stack.enter_async_context(_opened(kind, where, switch, program)))
            for kind in kinds
        ]
        for case in (case for case in CASES if not case.touch):
            for turn in range(plan.turns):
                for kind, channel in opened if turn % 2 == 0 else opened[::-1]:
                    window = await channel.measure(case, plan.turn_s, plan.turn_settle_s)
                    check(kind, case, window)
                    taken.setdefault((kind.name, case), []).append(figures.mpps(kind, case, window))
    return taken


def check(kind: Kind, case: Case, window: Window) -> None:
    """Checks that the window is valid.

    Raises:
        ChannelError: no packets arrived, or others than were sent.
    """
    if window.packets == 0:
        raise ChannelError(f"{case.name}: no packets arrived ({window.sent} were sent)")
    if window.corrupt > 0:
        raise ChannelError(f"{case.name}: {window.corrupt} packets arrived corrupted")
    if window.foreign > window.packets // 2:
        raise ChannelError(f"{case.name}: {window.foreign} packets had another length")


async def run(plan: Plan, kinds: Sequence[Kind], say: Say) -> tuple[list[Row], dict[str, Any]]:
    """Measures the kinds in turn, and again for each repeat.

    A kind that can't be measured is skipped with its reason; its goals are not met.

    Raises:
        ChannelError, PeerError: a common requirement is missing, or the switch could not be set up.
    """
    program = find_channel_program()
    priority = raise_priority()
    taken: dict[tuple[str, Case], list[float]] = {}
    failed: dict[str, str] = {}
    with place() as where:
        switch = Switch(where)
        try:
            for number in range(plan.repeats):
                for kind in kinds:
                    if kind.name in failed:
                        continue
                    try:
                        windows = await _round(kind, where, switch, plan, program)
                    except ChannelError as error:
                        failed[kind.name] = str(error)
                        say(f"{kind.name}: skipped: {error}")
                        continue
                    for case, window in windows.items():
                        rate = figures.mpps(kind, case, window)
                        taken.setdefault((kind.name, case), []).append(rate)
                say(f"round {number + 1} of {plan.repeats}")
            pair = [kind for kind in kinds if kind.name in IN_TURN]
            turns: dict[tuple[str, Case], list[float]] = {}
            if len(pair) == len(IN_TURN) and not any(kind.name in failed for kind in pair):
                turns = await _in_turn(pair, where, switch, plan, program)
        finally:
            switch.stop()
    complete = {key: rates for key, rates in taken.items() if key[0] not in failed}
    rows = list(figures.rates(kinds, complete, failed))
    rows += figures.in_turn(turns, failed, whole=len(pair) == len(IN_TURN))
    rows += figures.ratios(complete, failed, whole=len(kinds) == len(KINDS))
    return rows, manifest(plan, kinds, priority)


def manifest(plan: Plan, kinds: Sequence[Kind], priority: str) -> dict[str, Any]:
    """The setup, the definitions, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "definitions": {
            "rate": "packets handed to the receiver per second, in bursts of up to 32",
            "pointers": "nothing is written to or read from the payload; headers were written once",
            "touched": "the producer writes a word into each cache line of each packet, the "
            "consumer reads and checks it",
            "direct, ring": "the consumer sends each buffer back by the same kind of ring; "
            "untouched packets are counted both ways, touched ones one way",
            "ring": "numbers only: no checks, owners, lengths or counters; the machine's limit",
            "ratio": "median of the ratios of windows of the same round",
            "in turn": f"{plan.turns} windows of {plan.turn_s:g} s of each, alternating, with both "
            "channels open; direct/ring is the median of the ratios of neighboring ones",
            "sizes": f"{', '.join(map(str, SIZES))} octets with an FCS of {FCS}",
        },
        "kinds": {
            kind.name: {"setting": kind.setting, "arguments": " ".join(kind.arguments)}
            for kind in kinds
        },
        "cores": {
            kind.name: dict(zip(("producer", "consumer"), cores(kind), strict=True))
            for kind in kinds
        },
        "shared": "with the switch between them its worker has core 1 and producer and consumer "
        "share core 0, giving it to each other when they have nothing to do; else each has a core. "
        "The programs' control threads and this command run on the same cores, mostly asleep",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s, "settle": plan.settle_s},
        "priority": priority,
        "order": "all kinds in turn, each with all its cases, and again for each repeat",
    }
