# SPDX-License-Identifier: Apache-2.0
"""Which trials of `headrace bench latency` count."""

from __future__ import annotations

import pytest

from headrace.bench.latency.bed import Threads
from headrace.bench.latency.suite import Taken, least_disturbed, percentile_us
from headrace.bench.peers.systems import PeerError
from headrace.traffic.models import GeneratorHealth, LatencyNs, TrialResult, WorkerHealth


def trial(p99_ns: float | None, waited_ms: float, off_core: float, others_ms: float = 0) -> Taken:
    """A trial of one second."""
    worker = WorkerHealth(busy_share=0.1, on_core_share=1 - off_core)
    result = TrialResult(
        intended=10,
        sent=10,
        unsent=0,
        received=10,
        lost=0,
        duplicated=0,
        reordered=0,
        misdelivered=0,
        tx_pps=10,
        rx_pps=10,
        loss_ratio=0,
        latency_ns=LatencyNs(count=10, p99=p99_ns),
        duration_s=1,
        generator=GeneratorHealth(busy_share=0.1, workers=[worker]),
    )
    return Taken(result, Threads(worker_waited=waited_ms, others_ran=others_ms))


def test_trials_count_by_what_other_programs_took_not_by_their_figures() -> None:
    slow, waited, late = trial(9000, 0, 0), trial(1000, 3, 0), trial(2000, 0, 0.005)
    assert least_disturbed([waited, late, slow], 2) == [slow, waited]
    assert percentile_us([slow, waited], "p99") == [9, 1]


def test_the_time_of_the_switchs_own_threads_is_no_disturbance() -> None:
    assert trial(1, 1, 0.004, others_ms=4).disturbed_ms == pytest.approx(1)
    assert trial(1, 1, 0.004, others_ms=9).disturbed_ms == pytest.approx(1)
    assert trial(1, 1, 0.004, others_ms=1).disturbed_ms == pytest.approx(4)


def test_no_packet_back_is_an_error() -> None:
    with pytest.raises(PeerError, match="no packet came back"):
        percentile_us([trial(None, 0, 0)], "p99")
