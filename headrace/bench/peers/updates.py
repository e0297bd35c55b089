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

from headrace.bench.peers import openflow
from headrace.bench.peers.cases.case import SINK
from headrace.bench.peers.cases.routing import mixed_prefixes
from headrace.bench.peers.openflow import Session, flow_mod, ipv4_match
from headrace.bench.peers.rulesets import Ruleset, ruleset
from headrace.bench.peers.switches import OpenVSwitchLike

FLOWS = 100_000
GOAL_PER_SECOND = 200_000
CHURN_PER_SECOND = 10_000
CHURN_TABLE = 5  # no packet gets there
BATCH = 100  # flows that come and go together
PACE = 1.02
FIREWALL_ENTRIES = 10_000


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
    """How many changes a churn has made so far, and, once it has ended, how long it took."""

    made: int = 0
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Changes per second of a churn that has ended; 0 if there was none."""
        return self.made / self.seconds if self.seconds else 0.0


@contextmanager
def _beside(work: Callable[[threading.Event, Changes], None]) -> Iterator[Changes]:
    """Runs `work` in a thread while the block runs; its error, if any, comes out at the end."""
    until = threading.Event()
    changes = Changes()
    errors: list[Exception] = []

    def guarded() -> None:
        start = time.perf_counter()
        try:
            work(until, changes)
            changes.seconds = time.perf_counter() - start
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
def _changing(
    system: OpenVSwitchLike, adds: list[bytes], deletes: list[bytes]
) -> Iterator[Changes]:
    """Adds and deletes the same flows, over and over at CHURN_PER_SECOND, while the block runs."""
    both = b"".join(adds + deletes)

    def churn(until: threading.Event, changes: Changes) -> None:
        with Session(system.rundir / "br0.mgmt") as session:
            due = time.perf_counter()
            while not until.is_set():
                session.send(both)
                session.barrier()
                changes.made += len(adds) + len(deletes)
                # A little faster: connecting counts, too, in which nothing is changed.
                due += (len(adds) + len(deletes)) / (PACE * CHURN_PER_SECOND)
                time.sleep(max(0.0, due - time.perf_counter()))

    with _beside(churn) as changes:
        yield changes


@contextmanager
def flow_churn(system: OpenVSwitchLike) -> Iterator[Changes]:
    """Other flows come and go in a table that no packet gets to."""
    flows = [(32, ipv4_match(0x0B000000 + i, 32)) for i in range(BATCH)]
    with _changing(
        system,
        [flow_mod(openflow.ADD, p, m, SINK, table=CHURN_TABLE) for p, m in flows],
        [flow_mod(openflow.DELETE_STRICT, p, m, None, table=CHURN_TABLE) for p, m in flows],
    ) as changes:
        yield changes


def firewall_flows() -> list[tuple[int, bytes]]:
    """(priority, match) of rules that go among those of the acl firewall, none of them its own."""
    resident = ruleset("acl", FIREWALL_ENTRIES)
    own = {(*value, *mask) for value, mask in zip(*_numbers(resident), strict=True)}
    others = ruleset("ipc", 10 * BATCH)
    found = [
        openflow.five_tuple_match(value, mask)
        for value, mask in zip(*_numbers(others), strict=True)
        if (*value, *mask) not in own
    ]
    highest, lowest = int(resident.priorities.max()), int(resident.priorities.min())
    return [
        (highest - i * (highest - lowest) // (BATCH - 1), found[i * len(found) // BATCH])
        for i in range(BATCH)
    ]


def _numbers(of: Ruleset) -> tuple[list[list[int]], list[list[int]]]:
    return of.values.tolist(), of.masks.tolist()


@contextmanager
def firewall_churn(system: OpenVSwitchLike) -> Iterator[Changes]:
    """Rules that allow come and go in the firewall's own table, at all heights of its order.

    Whatever packets they take is allowed before and after, so none is to be lost.
    """
    flows = firewall_flows()
    with _changing(
        system,
        [flow_mod(openflow.ADD, p, m, SINK) for p, m in flows],
        [flow_mod(openflow.DELETE_STRICT, p, m, None) for p, m in flows],
    ) as changes:
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


Churn = Callable[[OpenVSwitchLike], AbstractContextManager[Changes]]
CHURNS: dict[str, Churn] = {
    "no churn": quiet,
    "10k flow-mods/s": flow_churn,
    "port churn": port_churn,
    "lsi churn": lsi_churn,
}
