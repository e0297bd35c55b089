# SPDX-License-Identifier: Apache-2.0
"""Windows of `bench terms` become the model's: counted, filtered, written and read again."""

from pathlib import Path

import pytest

from headrace.bench.cost.bed import Window
from headrace.bench.cost.counters import WorkerCounters
from headrace.bench.peers.frames import Pace
from headrace.bench.terms import suite, windows
from headrace.bench.terms.suite import Point, Setup, Taken
from headrace.bench.vnfs.mixes import Mix
from headrace.model.mechanistic.fitting import fit_all
from headrace.model.mechanistic.windows import Key, read_windows

HZ = 2e9
KINDS = ("headrace/in-process+shm", "headrace/in-process+vhost-user")


def counters(packets: int, rounds: int, cycles: int) -> WorkerCounters:
    busy = cycles * packets + 500 * rounds
    return WorkerCounters(busy, int(HZ) - busy, 2_000_000, rounds, rounds, None, packets, 10**9)


def taken() -> Taken:
    """100 cycles a packet, 300 or 200 a visit, 500 a busy round; VNFs of 50."""
    found = Taken("headrace")
    for setup in (Setup(), Setup(1), Setup(2), Setup(1, "shm")):
        visit = 200 if setup.ports == "shm" else 300
        for size in (64, 1518):
            mix = Mix(f"{size}B", (size,))
            for load, pps in ((0.1, 100_000), (0.3, 400_000), (0.6, 900_000)):
                for burst in (1, 32):
                    pace = Pace(burst=burst, pps=float(pps))
                    switch = counters(pps, pps // burst, 100 + setup.vnfs * visit)
                    vnfs = (counters(pps, pps // burst, 50),) * setup.vnfs
                    window = Window(
                        1.0, 1.0, mix, pace, switch, pps, pps, 0, 0, vnfs, 0, open_s=1.0
                    )
                    found.windows.append((Point(setup, mix, pace, load), window))
            full = counters(10**7, 10**5, 100)
            window = Window(1.0, 1.0, mix, Pace(), full, 10**7, 10**7, 0, 0, (), 0)
            found.windows.append((Point(setup, mix, Pace(), None), window))
    return found


def test_the_terms_come_back_by_kind_of_ports(tmp_path: Path) -> None:
    found = windows.windows_of(taken(), HZ)
    fitted = fit_all(found)
    assert fitted.subjects() == list(KINDS)
    for subject, visit in zip(KINDS, (200, 300), strict=True):
        switch = fitted.roles[Key(subject, "switch")]
        assert switch.term("packets") == pytest.approx(100, rel=1e-6)
        assert switch.term("visits") == pytest.approx(visit, rel=1e-6)
        assert fitted.roles[Key(subject, "VNF", "pass")].term("packets") == pytest.approx(50)
    # Of VNFs that share a core only the switch's windows are points.
    assert not [one for one in found if one.key.role == "VNF" and one.vnfs == 2]
    file = tmp_path / "windows.json"
    windows.write(file, found, {"machine": {"cores": 2}})
    assert read_windows([file]) == (found, {"machine": {"cores": 2}})
    file.write_text("[]")
    with pytest.raises(ValueError, match="bench terms"):
        read_windows([file])


def test_windows_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    some = windows.windows_of(taken(), HZ)[:3]
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for cores, file in enumerate(files, 2):
        windows.write(file, some, {"machine": {"cores": cores}})
    with pytest.raises(ValueError, match=r"b\.json: of another machine .*cores: 3, 2"):
        read_windows(files)
    windows.write(files[0], [], {})
    with pytest.raises(ValueError, match="no windows"):
        read_windows(files[:1])


def test_idle_rounds_outside_of_the_load_are_left_out() -> None:
    worker = WorkerCounters(400, 1600, 100, 20, 20, None, 20, 0)
    assert worker.within(1200) == WorkerCounters(400, 800, 60, 20, 20, None, 20, 0)
    assert worker.within(3000) == worker


def test_setups_are_varied_one_by_one() -> None:
    found = suite.setups_of("headrace", ["0", "1", "3"], ["shm", "vhost-user"], ["pass", "cpu"])
    assert found == [
        Setup(),
        Setup(1, "shm"),
        Setup(3, "shm"),
        Setup(1, "shm", "cpu"),
        Setup(1, "vhost-user"),
        Setup(1, "vhost-user", "cpu"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ovs-dpdk", ["1"], ["shm"], ["pass"]), "no other ports"),
        (("none", ["1"], ["shm"], ["pass"]), "no switch 'none'"),
        (("headrace", ["9"], ["shm"], ["pass"]), "0 to 4"),
        (("headrace", ["1"], ["veth"], ["pass"]), "ports: give some of"),
        (("headrace", ["1"], ["shm"], ["nat"]), "functions: give some of"),
    ],
)
def test_what_is_not_known_is_refused(arguments: tuple[str, list[str], list[str], list[str]],
                                      said: str) -> None:  # fmt: skip
    with pytest.raises(ValueError, match=said):
        suite.setups_of(*arguments)
