# SPDX-License-Identifier: Apache-2.0
"""Packets into and out of a node's ports, as the tests use them: single frames, and loads.

`wires.py` has them on kernel interfaces, `generator.py` by headrace-traffic; the faulty node of the
tests has a simulated one. A port is named as the node names it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.conformance.frames import Frame


@dataclass(frozen=True)
class Stream:
    """Packets from one port, expected at another.

    `size` counts the FCS but no tag, or is an IMIX of headrace-traffic's. `zipf` is the exponent of
    the flows' popularity, None is round robin. `targets` is the first IPv4 destination; flow i has
    the one that is i after it.
    """

    name: str
    source: str
    sink: str
    size: int | str = 64
    flows: int = 1
    tag: int | None = None
    zipf: float | None = None
    targets: str = "198.19.0.1"
    share: float = 1.0


@dataclass(frozen=True)
class Measured:
    """What a load of packets came to, over all streams; latencies in nanoseconds, one-way."""

    seconds: float
    intended: int
    sent: int
    received: int
    duplicated: int = 0
    reordered: int = 0
    misdelivered: int = 0
    bits: float = 0.0
    latency_p50: float | None = None
    latency_p99: float | None = None
    streams: Mapping[str, "Measured"] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Packets that were to be sent and did not come back."""
        return self.intended - self.received

    @property
    def loss(self) -> float:
        """The share that was lost."""
        return self.lost / self.intended if self.intended else 0.0

    @property
    def pps(self) -> float:
        """Packets that came back, per second."""
        return self.received / self.seconds if self.seconds else 0.0


Read = Callable[[], Awaitable[Mapping[str, Measured]]]
"""What each stream has come to so far."""


class Frames(Protocol):
    """Single frames: each is sent once, and what comes out anywhere is captured."""

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the node's ports at which frames can be sent and captured."""
        ...

    async def exchange(
        self, sent: Sequence[tuple[str, Frame]], expected: int | None = None
    ) -> Mapping[str, list[Frame]]:
        """Sends frames into ports; what came out of each port, until `expected` have come.

        None waits for the whole time in which something may come.
        """
        ...


class Loads(Protocol):
    """Loads of packets at a rate."""

    @property
    def ports(self) -> tuple[str, str]:
        """The ports between which loads are sent: the subscriber's, and the internet's."""
        ...

    async def load(
        self,
        streams: Sequence[Stream],
        pps: float | None,
        seconds: float,
        meanwhile: Callable[[Read], Awaitable[None]] | None = None,
    ) -> Measured:
        """Sends at `pps` over all streams (None: as fast as they are taken); what came of it.

        `meanwhile` is carried out while packets are sent, which go on until it has ended.
        """
        ...
