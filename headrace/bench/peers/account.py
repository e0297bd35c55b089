# SPDX-License-Identifier: Apache-2.0
"""What became of the packets of a window: handed out by the source, sent to the sinks, or lost.

The source is closed before the counters are read, so the difference is exact. Source and sinks run
in the worker and are never starved without it.
"""

import time
from dataclasses import dataclass

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.switches import OpenVSwitchLike
from headrace.bench.peers.systems import PeerError, Place

REST_S = 0.15  # longer than a burst takes in which every packet is an upcall


@dataclass(frozen=True)
class Counters:
    """Packets so far, at each place on the way."""

    served: int  # handed out by the source
    received: int  # by the port that it is
    sent: tuple[int, ...]  # to each sink
    strayed: int = 0  # to ports that were to get nothing


@dataclass(frozen=True)
class Account:
    """What became of one window's packets."""

    before: Counters
    after: Counters
    seconds: float

    @property
    def lost(self) -> int:
        """Packets that the source handed out and a sink never got, of all sinks together."""
        return sum(self._served - sent for sent in self._sent)

    @property
    def strayed(self) -> int:
        """Packets that reached a port that was to get nothing."""
        return self.after.strayed - self.before.strayed

    @property
    def pps(self) -> float:
        """Packets per second at the first sink."""
        return self._sent[0] / self.seconds

    def told(self) -> str:
        """The place between whose counters packets are missing."""
        received = self.after.received - self.before.received
        within = sum(received - sent for sent in self._sent)
        return f"{self._served - received} between source and port, {within} between port and sink"

    @property
    def _served(self) -> int:
        return self.after.served - self.before.served

    @property
    def _sent(self) -> list[int]:
        return [b - a for a, b in zip(self.before.sent, self.after.sent, strict=True)]


class Source:
    """A case's source, which can be opened and closed while the switches run."""

    def __init__(self, case: Case, place: Place) -> None:
        """Prepares the frames; the source is not there yet."""
        self.device = case.device
        self.path = place.flow_dir / f"{case.device}.frames"
        self._open = self.path.with_suffix(".open")
        self._closed = self.path.with_suffix(".closed")
        frames.write(self._open, case.make_frames())
        frames.close(self._closed)

    def open(self) -> None:
        """Frames come."""
        frames.serve(self.path, self._open)

    def close(self) -> None:
        """None come any more, shortly."""
        frames.serve(self.path, self._closed)

    def remove(self) -> None:
        """Takes the files away."""
        for path in (self.path, self._open, self._closed):
            path.unlink(missing_ok=True)

    def served(self, pid: int) -> int:
        """Frames that a process has been given so far."""
        return frames.served(self.path.parent, self.device, pid)


class Window:
    """Opens the source for a while and accounts for all that it hands out."""

    def __init__(self, system: OpenVSwitchLike, case: Case, source: Source) -> None:
        """Closes the source; the case must be loaded, and the system be running."""
        self.system = system
        self.sinks = case.sinks
        self.source = source
        source.close()
        self._at_rest()

    def account(self, seconds: float) -> Account:
        """One window. PeerError if nothing came through."""
        before = self._counters()
        self.source.open()
        start = time.monotonic()
        time.sleep(seconds)
        self.source.close()
        taken = time.monotonic() - start
        self._at_rest()
        account = Account(before, self._counters(), taken)
        if account.pps <= 0:
            raise PeerError(f"{self.system.name}: nothing came through; {account.told()}")
        return account

    def _counters(self) -> Counters:
        each = self.system.sent_by_each()
        sent, strayed = tuple(each[: self.sinks]), sum(each[self.sinks :])
        return Counters(self._served(), self.system.received(), sent, strayed)

    def _served(self) -> int:
        return self.source.served(self.system.polling().pid)

    def _at_rest(self) -> None:
        """Waits until neither the closed source nor the sinks' counters move any more."""
        deadline = time.monotonic() + 20
        seen: tuple[int, list[int]] = (-1, [])
        while (now := (self._served(), self.system.sent_by_each())) != seen:
            if time.monotonic() > deadline:
                raise PeerError(f"{self.system.name}: the source did not come to rest in 20 s")
            seen = now
            time.sleep(REST_S)
