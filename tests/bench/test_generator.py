# SPDX-License-Identifier: Apache-2.0
"""Which samples of the generator's bench count, and what it says when none does."""

from headrace.bench import generator
from headrace.bench.rows import Row
from headrace.traffic.models import Calibration, CalibrationSize, LatencyNs, WorkerHealth


def calibration(
    mpps: float, error_ns: float, *, fastest: float = 1.0, paced: float = 1.0
) -> Calibration:
    """A calibration at 64 octets; the worker's shares of its core in both of its trials."""

    def worker(share: float) -> list[WorkerHealth]:
        return [WorkerHealth(busy_share=1, on_core_share=share)]

    size = CalibrationSize(size=64, ceiling_pps=mpps * 1e6, loss_ratio=0, workers=worker(fastest))
    times = LatencyNs(count=9, p50=error_ns, p99=9 * error_ns)
    return Calibration(
        via="net_ring",
        ceilings=[size],
        latency_floor_ns=times,
        timing_error_ns=times,
        at_pps=1e6,
        workers=worker(paced),
    )


def by_name(found: list[Calibration], repeats: int) -> dict[str, Row]:
    return {row.name: row for row in generator.rows_of(found, repeats)}


def test_a_trial_whose_core_others_had_does_not_count() -> None:
    found = [
        calibration(40, 60),
        calibration(20, 70, fastest=0.5),
        calibration(42, 900_000, paced=0.4),
        calibration(44, 80),
    ]
    assert generator.enough(found, 3)
    assert not generator.enough(found, 4)
    rows = by_name(found, 9)
    assert rows["sent and received 64 B"].samples == [40, 42, 44]
    assert rows["timing error p50"].samples == [0.06, 0.07, 0.08]
    assert rows["timing error p50"].met
    assert rows["timing error p99"].value == 0.63
    assert len(by_name(found, 2)["timing error p50"].samples) == 2


def test_without_a_sample_that_counts_there_is_no_figure_but_a_reason() -> None:
    found = [calibration(40, 60, fastest=0.3, paced=0.6)] * 6
    assert generator.enough(found, 2), "no more are tried"
    rows = by_name(found, 2)
    for name in ("sent and received 64 B", "timing error p50"):
        assert rows[name].value is None
        assert rows[name].met is False
    assert "at best" in (rows["timing error p50"].skipped or "")
    assert "60%" in (rows["timing error p50"].skipped or "")
    assert generator.two_cores_row(found, 2).value is None


def test_the_worker_worst_off_decides() -> None:
    two = [WorkerHealth(busy_share=1, on_core_share=share) for share in (1.0, 0.7)]
    assert generator.on_core(two) == 0.7
    assert not generator.alone(two)
    assert not generator.alone([WorkerHealth(busy_share=0)])
