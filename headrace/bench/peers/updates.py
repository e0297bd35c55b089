# SPDX-License-Identifier: Apache-2.0
"""How fast rules change, how soon a change takes effect, and what it costs the traffic.

Rates: 100 000 flow-mods prepared as bytes, sent singly or as one bundle, timed from the first byte
to the barrier's reply; the client and the switch's main thread share core 0, as in a real node.
Effect: from sending a flow-mod that opens a port to the first packet seen on it by port statistics
(so the reading's own round trip is in it, and is told beside it). Churn: what the source handed out
less what the sink was sent, over a window in which 10 000 flow-mods per second, ports or LSIs come
and go; the source is unpaced, and closed before the counters are read, so the difference is what
the switch lost. Source and sink run in the worker and are never starved without it; what is missing
is told by counter (source, port in, port out). The rate beside it shows any stall, the count of
changes that they took place.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from headrace.bench.peers import cases, frames, openflow
from headrace.bench.peers.cases import SINK, SOURCE, mixed_prefixes
from headrace.bench.peers.openflow import Session, flow_mod, ipv4_match
from headrace.bench.peers.systems import OpenVSwitchLike, PeerError, Place

FLOWS = 100_000
GOAL_PER_SECOND = 200_000
CHURN_PER_SECOND = 10_000
CHURN_TABLE = 5  # no packet gets there


def exact_flows() -> list[tuple[int, bytes]]:
    """(priority, match) of different /32 destinations."""
    return [(32, ipv4_match(0x0A000000 + i * 7, 32)) for i in range(FLOWS)]


def prefix_flows() -> list[tuple[int, bytes]]:
    """(priority, match) of different prefixes of mixed lengths, /12 to /32."""
    return [(length, ipv4_match(address, length)) for address, length in mixed_prefixes(FLOWS, 12)]


def flow_mods_per_second(
    system: OpenVSwitchLike, flows: list[tuple[int, bytes]], *, bundled: bool
) -> dict[str, float]:
    """Adds all flows and strictly deletes them again; per second of each."""
    adds = [flow_mod(openflow.ADD, p, m, SINK, table=CHURN_TABLE) for p, m in flows]
    deletes = [flow_mod(openflow.DELETE_STRICT, p, m, None, table=CHURN_TABLE) for p, m in flows]
    rates = {}
    for verb, mods in (("add", adds), ("delete", deletes)):
        sent = openflow.bundle(mods) if bundled else b"".join(mods)
        with Session(system.rundir / "br0.mgmt") as session:
            session.barrier()
            start = time.perf_counter()
            session.send(sent)
            session.barrier()
            rates[verb] = len(flows) / (time.perf_counter() - start)
    return rates


@dataclass(frozen=True)
class Effect:
    """Milliseconds from flow-mod to effect, each, and the median round trip of a reading."""

    taken: list[float]
    reading: float

    def percentile(self, share: float) -> float:
        """The value that `share` of the times do not exceed."""
        ordered = sorted(self.taken)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def time_to_effect(system: OpenVSwitchLike, repeats: int) -> Effect:
    """How long a flow-mod that opens the sink takes until the first packet is seen there.

    Needs the case `toggle` loaded: every packet of the source meets rule 1 of table 0.
    """
    everything = b"\0\x01\0\x04\0\0\0\0"
    opened = flow_mod(openflow.ADD, 1, everything, SINK)
    closed = flow_mod(openflow.ADD, 1, everything, None)
    taken: list[float] = []
    readings: list[float] = []
    with Session(system.rundir / "br0.mgmt") as session:
        for _ in range(repeats):
            session.send(closed)
            session.barrier()
            time.sleep(0.02)
            session.transmitted(SINK)  # both sides awake
            asked = time.perf_counter()
            before = session.transmitted(SINK)
            start = time.perf_counter()
            readings.append((start - asked) * 1e3)
            session.send(opened)
            while session.transmitted(SINK) == before:
                if time.perf_counter() - start > 5:
                    raise openflow.Refused("a rule took no effect within 5 s")
            taken.append((time.perf_counter() - start) * 1e3)
    return Effect(taken, statistics.median(readings))


@dataclass
class Changes:
    """How many changes a churn has made so far."""

    made: int = 0


@contextmanager
def _beside(work: Callable[[threading.Event, Changes], None]) -> Iterator[Changes]:
    """Runs `work` in a thread while the block runs; its error, if any, comes out at the end."""
    until = threading.Event()
    changes = Changes()
    errors: list[Exception] = []

    def guarded() -> None:
        try:
            work(until, changes)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        yield changes
    finally:
        until.set()
        thread.join()
    if errors:
        raise errors[0]


@contextmanager
def flow_churn(system: OpenVSwitchLike) -> Iterator[Changes]:
    """Adds and deletes other flows at CHURN_PER_SECOND while the block runs."""
    batch = 100
    flows = [(32, ipv4_match(0x0B000000 + i, 32)) for i in range(batch)]
    adds = b"".join(flow_mod(openflow.ADD, p, m, SINK, table=CHURN_TABLE) for p, m in flows)
    deletes = b"".join(
        flow_mod(openflow.DELETE_STRICT, p, m, None, table=CHURN_TABLE) for p, m in flows
    )

    def churn(until: threading.Event, changes: Changes) -> None:
        with Session(system.rundir / "br0.mgmt") as session:
            due = time.perf_counter()
            while not until.is_set():
                session.send(adds + deletes)
                session.barrier()
                changes.made += 2 * batch
                due += 2 * batch / CHURN_PER_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))

    with _beside(churn) as changes:
        yield changes


@contextmanager
def port_churn(system: OpenVSwitchLike) -> Iterator[Changes]:
    """Adds and deletes another port, over and over, while the block runs."""

    def churn(until: threading.Event, changes: Changes) -> None:
        while not until.is_set():
            system.vsctl(
                *("add-port", "br0", "guest", "--", "set", "Interface", "guest", "type=dpdk"),
                "options:dpdk-devargs=net_null_guest,no-rx=1",
            )
            system.vsctl("del-port", "br0", "guest")
            changes.made += 2

    with _beside(churn) as changes:
        yield changes


@contextmanager
def lsi_churn(system: OpenVSwitchLike) -> Iterator[Changes]:
    """Creates and destroys another LSI, over and over, while the block runs."""

    def churn(until: threading.Event, changes: Changes) -> None:
        while not until.is_set():
            system.vsctl("add-br", "br1", *system.bridge_options("br1"))
            system.vsctl("del-br", "br1")
            changes.made += 2

    with _beside(churn) as changes:
        yield changes


@contextmanager
def quiet(_: OpenVSwitchLike) -> Iterator[Changes]:
    """Nothing changes: the baseline."""
    yield Changes()


CHURNS: dict[str, Callable[[OpenVSwitchLike], AbstractContextManager[Changes]]] = {
    "no churn": quiet,
    "10k flow-mods/s": flow_churn,
    "port churn": port_churn,
    "lsi churn": lsi_churn,
}


@dataclass(frozen=True)
class Counters:
    """Packets so far, at each place on the way."""

    served: int  # handed out by the source
    received: int  # by the port that it is
    sent: int  # to the sink


@dataclass(frozen=True)
class Account:
    """What became of one window's packets."""

    before: Counters
    after: Counters
    seconds: float

    @property
    def lost(self) -> int:
        """Packets that the source handed out and the sink never got."""
        return self._grown("served") - self._grown("sent")

    @property
    def pps(self) -> float:
        """Packets per second at the sink."""
        return self._grown("sent") / self.seconds

    def told(self) -> str:
        """The place between whose counters packets are missing."""
        before_port = self._grown("served") - self._grown("received")
        within = self._grown("received") - self._grown("sent")
        return f"{before_port} between source and port, {within} between port and sink"

    def _grown(self, name: str) -> int:
        return int(getattr(self.after, name) - getattr(self.before, name))


class Window:
    """Opens the source for a while and accounts for all that it hands out."""

    def __init__(self, system: OpenVSwitchLike, where: Place) -> None:
        """Closes the source of the case `toggle`, which must be loaded."""
        self.system = system
        self.device = cases.toggle().device
        self.flow_dir = where.flow_dir
        self.path = where.flow_dir / f"{self.device}.frames"
        frames.close(self.path)
        self._at_rest()

    def account(self, seconds: float) -> Account:
        """One window. PeerError if nothing came through."""
        before = self._counters()
        frames.write(self.path, cases.toggle().make_frames())
        start = time.monotonic()
        time.sleep(seconds)
        frames.close(self.path)
        taken = time.monotonic() - start
        self._at_rest()
        account = Account(before, self._counters(), taken)
        if account.pps <= 0:
            raise PeerError(f"{self.system.name}: nothing came through; {account.told()}")
        return account

    def _counters(self) -> Counters:
        with Session(self.system.rundir / "br0.mgmt") as session:
            received, _ = session.port_packets(SOURCE)
            return Counters(self._served(), received, session.transmitted(SINK))

    def _served(self) -> int:
        return frames.served(self.flow_dir, self.device, self.system.polling().pid)

    def _at_rest(self) -> None:
        """Waits until neither the closed source nor the sink's counter moves any more."""
        deadline = time.monotonic() + 20
        seen = (-1, -1)
        while (now := (self._served(), self.system.sent())) != seen:
            if time.monotonic() > deadline:
                raise PeerError(f"{self.system.name}: the source did not come to rest in 20 s")
            seen = now
            time.sleep(0.05)
