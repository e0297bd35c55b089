# SPDX-License-Identifier: Apache-2.0
"""Rows of `bench cost` from windows of known cost: one state, and what a VNF's port refused."""

from headrace.bench.cost.bed import Way, Window
from headrace.bench.cost.counters import WorkerCounters
from headrace.bench.cost.figures import Saturation, Taken, entries_of, rows_of
from headrace.bench.peers.frames import Pace
from headrace.bench.rows import Row
from headrace.bench.vnfs.mixes import Mix

HZ = 2e9
ROUND, IDLE = 500, 400
REFUSED = 0.5
MIX = Mix("64B", (64,))


def window(way: Way, pps: int, burst: int, transfer_ns: float | None, factor: int = 1) -> Window:
    """A second of a switch that spends 100 cycles a packet, 300 with a VNF."""
    each, rounds = (100 if way == "p2p" else 300) * factor, pps // burst
    busy = each * pps + ROUND * rounds
    idle_rounds = (int(HZ) - busy) // IDLE
    worker = WorkerCounters(busy, idle_rounds * IDLE, rounds + idle_rounds, rounds,
                            rounds, None, pps, 10**9)  # fmt: skip
    vnfs = () if way == "p2p" else (worker,)
    pace = Pace(burst=burst, pps=float(pps))
    return Window(1.0, 1.0, MIX, pace, worker, pps, pps, 0, 0, vnfs, 0, 1.0,
                  transfer_ns=transfer_ns)  # fmt: skip


def taken(way: Way) -> Taken:
    found = Taken("headrace", way)
    near = None if way == "p2p" else 200.0
    for load, pps in ((0.05, 100_000), (0.2, 400_000), (0.6, 1_200_000)):
        for burst in (1, 4, 32):
            group = f"bursts of {burst} at {load:g}"
            found.windows.append((group, window(way, pps, burst, near)))
            if way == "pvp":
                found.windows.append((group, window(way, pps // 4, burst, 600.0, factor=2)))
    # Each round brings one burst: a round is taken at an idle one's cost, the rest is bursts'.
    entry, whole = (
        each + IDLE / 128 + queues * (ROUND - IDLE) / 32 for each, queues in ((100, 1), (300, 2))
    )
    cycles = entry if way == "p2p" else whole + REFUSED * entry
    refused = 0.0 if way == "p2p" else REFUSED
    for turn, distance in ((1, near), (2, near), (3, 600.0)):
        rate = HZ / cycles if distance == near else 9e9
        one = Saturation("64B", 64.0, 0.0, rate, "switch", "", turn, refused, distance)
        found.saturations.append(one)
    return found


def rows(way: Way, others: list[Taken]) -> dict[str, Row]:
    own = taken(way)
    made = rows_of(way, [own], {}, HZ, entries_of([*others, own]))
    return {row.name: row for row in made}


def test_what_is_refused_has_cost_its_entry() -> None:
    found = rows("pvp", [taken("p2p")])
    error = found["pvp headrace 64B prediction error"]
    assert error.value is not None and error.value < 1 and error.met
    # Without the entry's cost the prediction is that of what comes through.
    alone = rows("pvp", [])["pvp headrace 64B prediction error"].value
    assert alone is not None and 10 < alone < 25


def test_windows_of_another_state_of_the_machine_do_not_count() -> None:
    found = rows("pvp", [taken("p2p")])
    kept = found["pvp headrace windows of one state"]
    assert kept.value == 9 and "of 18" in (kept.note or "")
    cost = found["pvp headrace switch per packet"].value
    assert cost is not None and abs(cost - 300) < 1


def test_port_to_port_there_is_one_state() -> None:
    found = rows("p2p", [])
    assert "p2p headrace windows of one state" not in found
    error = found["p2p headrace 64B prediction error"].value
    assert error is not None and error < 1
