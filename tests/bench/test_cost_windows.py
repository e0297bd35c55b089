# SPDX-License-Identifier: Apache-2.0
"""Windows of `bench cost` become the model's: counted, filtered, written and read again."""

from pathlib import Path

import pytest

from headrace.bench import cost_windows
from headrace.bench.cost.bed import Window
from headrace.bench.cost.counters import WorkerCounters
from headrace.bench.cost.figures import Saturation, Taken
from headrace.bench.peers.frames import Pace
from headrace.bench.vnfs.mixes import Mix
from headrace.model.mechanistic.fitting import fit_all
from headrace.model.mechanistic.windows import Key, read_windows

HZ = 2e9
SWITCH = Key("headrace/in-process+vhost-user", "switch")


def taken() -> Taken:
    """100 cycles a packet, 500 a busy round, at two sizes, three loads, bursts of 1 and 32."""
    found = Taken("headrace", "p2p")
    for mix in (Mix("64B", (64,)), Mix("1518B", (1518,)), Mix("IMIX", (64, 1518), (1, 1))):
        for pps in (100_000, 400_000, 900_000):
            for burst in (1, 32):
                rounds = pps // burst
                worker = WorkerCounters(
                    busy_cycles=100 * pps + 500 * rounds,
                    idle_cycles=int(HZ) - 100 * pps - 500 * rounds,
                    rounds=2_000_000,
                    busy_rounds=rounds,
                    bursts=rounds,
                    full_bursts=None,
                    packets=pps,
                    ran_ns=1_000_000_000,
                )
                window = Window(
                    1.0,
                    1.0,
                    mix,
                    Pace(burst=burst, pps=float(pps)),
                    worker,
                    pps,
                    pps,
                    0,
                    0,
                    None,
                    0,
                )
                found.windows.append((f"bursts of {burst} at {pps}", window))
    found.saturations.append(Saturation("512B", 512, 0.0, 17e6, "switch", ""))
    return found


def test_the_terms_come_back_and_mixes_are_left_out(tmp_path: Path) -> None:
    windows = cost_windows.windows_of([taken()], HZ)
    assert len(windows) == 2 * 3 * 2 + 1
    role = fit_all(windows).roles[SWITCH]
    assert role.term("packets") == pytest.approx(100, rel=1e-6)
    assert role.points == 12
    file = tmp_path / "windows.json"
    cost_windows.write(file, windows, {"machine": {"cores": 2}})
    assert read_windows(file) == (windows, {"machine": {"cores": 2}})
    file.write_text("[]")
    with pytest.raises(ValueError, match="bench terms"):
        read_windows(file)
