# SPDX-License-Identifier: Apache-2.0
"""The generator's ceilings by port kind."""

import pytest

from headrace.bench.errors import DeviceError
from headrace.bench.port_ceilings import KINDS, Kind, Point, PortCeiling, calibrate, point_of
from headrace.traffic import TrafficError, TrafficProcess, TrialResult


def result(rate: float, busy: float = 1.0, refused: int = 0, received: int = 900) -> TrialResult:
    worker = {"busy_share": busy, "busy_cycles": 90_000, "cycles": 100_000}
    return TrialResult.model_validate(
        {"intended": 1000, "sent": 1000, "unsent": 0, "received": received, "lost": 100,
         "duplicated": 0, "reordered": 0, "misdelivered": 0, "tx_pps": rate, "rx_pps": rate,
         "loss_ratio": 0.1, "latency_ns": {"count": 0}, "duration_s": 0.1,
         "generator": {"busy_share": busy, "workers": [worker], "io": {"tx_refused": refused}}}
    )  # fmt: skip


def test_the_best_trial_counts_and_says_whether_the_generator_was_the_limit() -> None:
    point = point_of(64, [result(1e6), result(3e6), result(2e6)])
    assert (point.pps, point.exact, point.cycles) == (3e6, True, 100.0)
    assert not point_of(64, [result(3e6, refused=50)]).exact  # its peer was slower
    slower_peer = point_of(64, [result(4e6, busy=0.8)])
    assert slower_peer.pps == pytest.approx(5e6) and not slower_peer.exact
    with pytest.raises(DeviceError, match="none of 1000 packets of 64 bytes"):
        point_of(64, [result(0, received=0)])


def test_between_sizes_the_time_of_a_packet_grows_with_its_bytes() -> None:
    points = (Point(64, 10e6, True), Point(1518, 2e6, True))
    ceiling = PortCeiling("memif", False, points)
    assert ceiling.at(64) == pytest.approx(10e6) and ceiling.at(9000) == pytest.approx(2e6)
    assert 1 / ceiling.at((64 + 1518) / 2) == pytest.approx((0.1e-6 + 0.5e-6) / 2)
    assert ceiling.exact
    assert not PortCeiling("memif", False, (points[0], Point(1518, 2e6, False))).exact


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_has_a_ceiling(kind: Kind) -> None:
    try:
        async with TrafficProcess(cpu=0) as traffic:
            plain = await calibrate(traffic, kind, core=1, seconds=0.02, sizes=(64, 1518))
            bare = await calibrate(traffic, kind, core=1, seconds=0.02, sizes=(64,), bare=True)
            assert await traffic.ports() == []
    except TrafficError as error:
        if error.code == "no_program":
            pytest.skip(str(error))
        raise
    assert [point.size for point in plain.points] == [64, 1518]
    assert all(point.pps > 1000 and point.cycles for point in plain.points)
    assert bare.bare and bare.points[0].pps > 1000
