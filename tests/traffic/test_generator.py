# SPDX-License-Identifier: Apache-2.0
"""The real generator, looped to itself: every packet is counted."""

import asyncio
import os
import struct
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from headrace.traffic import (
    Load,
    ReplaySpec,
    ReplaySpeed,
    StreamSpec,
    TrafficError,
    TrafficProcess,
    TrialResult,
    Variation,
    Zipf,
    merged,
)

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

# Other processes may hold the core for long: nothing is given up in these tests.
LATE_US = 5e6


async def memif_pair(traffic: TrafficProcess, directory: Path) -> None:
    socket = f"socket={directory}/memif.sock,socket-abstract=no,id=0"
    await traffic.add_port("a", f"net_memif0,role=server,{socket}")
    await traffic.add_port("b", f"net_memif1,role=client,{socket}", wait_link_s=10)
    await traffic.wait_links(timeout_s=10)


def assert_adds_up(result: TrialResult) -> None:
    for counts in [result, *result.streams]:
        assert counts.intended == counts.sent + counts.unsent
        assert counts.sent == counts.received + counts.lost
        assert counts.latency_ns.count == counts.received
    for name in ("intended", "sent", "received", "lost", "misdelivered"):
        assert getattr(result, name) == sum(getattr(s, name) for s in result.streams)


async def test_ring_returns_exactly_what_the_rate_says(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r", flows=1000)])
    result = await ring.trial(0.5, 20_001.5, warmup_s=0.1, late_bound_us=LATE_US)
    assert_adds_up(result)
    assert result.intended == result.received == 10_001
    assert result.lost == result.unsent == result.duplicated == result.reordered == 0
    assert result.loss_ratio == 0
    assert result.generator.stale == result.generator.foreign == 0
    latency = result.latency_ns
    assert latency.min and latency.p50 and latency.p99_9 and latency.max and latency.mean
    assert 0 < latency.min <= latency.p50 <= latency.p99_9 <= latency.max
    assert result.pdv_ns == pytest.approx(latency.p99_9 - latency.min)
    assert result.streams[0].flows == 1000
    assert result.streams[0].size is not None
    assert result.streams[0].size.mean == 64


async def test_imix_is_named_in_the_result(ring: TrafficProcess) -> None:
    await ring.configure(
        [StreamSpec(name="loop", tx_port="r", rx_port="r", size="imix-csit", flows=12)]
    )
    result = await ring.trial(0.2, 50_000, late_bound_us=LATE_US)
    assert_adds_up(result)
    assert result.received == 10_000
    size = result.streams[0].size
    assert size is not None
    assert (size.name, size.sizes, size.weights) == ("imix-csit", [64, 570, 1518], [7, 4, 1])
    assert size.mean == pytest.approx(353.83, abs=0.01)


async def test_memif_pair_both_directions(traffic: TrafficProcess, tmp_path: Path) -> None:
    await memif_pair(traffic, tmp_path)
    await traffic.configure(
        [
            StreamSpec(name="ab", tx_port="a", rx_port="b", size=64, share=3, flows=100),
            StreamSpec(name="ba", tx_port="b", rx_port="a", size="imix-nfvbench", vlan=9),
        ]
    )
    result = await traffic.trial(0.5, 40_000, yield_core=True, late_bound_us=LATE_US)
    assert_adds_up(result)
    assert result.lost == result.misdelivered == 0
    assert [stream.received for stream in result.streams] == [15_000, 5_000]


async def test_a_stream_at_the_wrong_port_is_misdelivered(
    traffic: TrafficProcess, tmp_path: Path
) -> None:
    await memif_pair(traffic, tmp_path)
    await traffic.configure(
        [
            StreamSpec(name="right", tx_port="a", rx_port="b"),
            StreamSpec(name="wrong", tx_port="a", rx_port="a"),
        ]
    )
    result = await traffic.trial(0.2, 10_000, late_bound_us=LATE_US, drain_s=0.05)
    assert_adds_up(result)
    right, wrong = result.streams
    assert (right.received, right.misdelivered, right.lost) == (1000, 0, 0)
    assert (wrong.received, wrong.misdelivered, wrong.lost) == (0, 1000, 1000)
    assert result.loss_ratio == 0.5


async def test_headers_of_every_kind_come_back(ring: TrafficProcess) -> None:
    ether_ip = ["ethernet", "ipv4", "udp"]
    stacks: list[list[str | dict[str, dict[str, Any]]]] = [
        ["ethernet", {"vlan": {"vid": 10}}, {"vlan": {"vid": 20}}, "ipv4", "udp"],
        ["ethernet", {"mpls": {"label": 77}}, "ipv4", "tcp"],
        ["ethernet", {"pppoe": {"session": 5}}, "ipv6", "udp"],
        [*ether_ip, {"vxlan": {"vni": 42}}, "ethernet", "ipv4", "udp"],
        [*ether_ip, {"gtpu": {"teid": 9}}, "ipv4", "udp"],
        ["ethernet", "ipv4", {"gre": {"key": 3}}, "ipv6", "tcp"],
        ["ethernet", "arp"],
    ]
    await ring.configure(
        [
            StreamSpec(
                name=str(i),
                tx_port="r",
                rx_port="r",
                size=9018 if i == 0 else 200 + i,
                flows=100,
                layers=stack,
            )
            for i, stack in enumerate(stacks)
        ]
    )
    result = await ring.trial(0.2, 35_000, late_bound_us=LATE_US)
    assert_adds_up(result)
    assert [stream.received for stream in result.streams] == [1000] * len(stacks)


async def test_zipf_flows_and_vary_are_in_the_result(ring: TrafficProcess) -> None:
    await ring.configure(
        [
            StreamSpec(
                name="loop",
                tx_port="r",
                rx_port="r",
                flows=1_000_000,
                vary=[Variation(field="ipv4_dst", step=256, count=2000), "udp_src"],
                popularity=Zipf(zipf=1.1),
            )
        ]
    )
    result = await ring.trial(0.1, 50_000, late_bound_us=LATE_US)
    assert result.received == 5000
    assert result.streams[0].flows == 1_000_000
    assert result.streams[0].popularity == Zipf(zipf=1.1, seed=1)


async def test_histograms_of_trials_merge(ring: TrafficProcess) -> None:
    await ring.configure(
        [
            StreamSpec(name="one", tx_port="r", rx_port="r"),
            StreamSpec(name="imix", tx_port="r", rx_port="r", size="imix-csit"),
        ]
    )
    trials = [
        await ring.trial(0.1, 20_000, late_bound_us=LATE_US, histograms=True) for _ in range(2)
    ]
    for trial in trials:
        whole = trial.latency_histogram
        assert whole is not None
        assert whole.count == trial.received == 2000
        assert whole.percentile_ns(99) == pytest.approx(trial.latency_ns.p99)
        assert whole.mean_ns == pytest.approx(trial.latency_ns.mean)
        parts = [stream.latency_histogram for stream in trial.streams]
        assert merged(part for part in parts if part is not None) == whole
    both = merged(trial.latency_histogram for trial in trials if trial.latency_histogram)
    assert both.count == 4000
    extremes = [(trial.latency_ns.min, trial.latency_ns.max) for trial in trials]
    assert both.percentile_ns(0) == pytest.approx(min(e[0] for e in extremes if e[0]), rel=0.004)
    assert both.percentile_ns(100) == pytest.approx(max(e[1] for e in extremes if e[1]), rel=0.004)
    assert (await ring.trial(0.01, 1000)).latency_histogram is None


@pytest_asyncio.fixture
async def two_cores() -> AsyncIterator[TrafficProcess]:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("this machine has one core")
    async with TrafficProcess(cpu=cpus[:2], huge=False, memory_mb=192) as process:
        yield process


async def test_two_workers_share_two_ports(two_cores: TrafficProcess, tmp_path: Path) -> None:
    await memif_pair(two_cores, tmp_path)
    await two_cores.configure(
        [
            StreamSpec(name="ab", tx_port="a", rx_port="b", flows=100),
            StreamSpec(name="ba", tx_port="b", rx_port="a", size="imix-csit"),
            StreamSpec(name="wrong", tx_port="a", rx_port="a"),
        ]
    )
    for _ in range(3):
        result = await two_cores.trial(
            0.3, 30_000, warmup_s=0.05, yield_core=True, late_bound_us=LATE_US, drain_s=0.05
        )
        assert_adds_up(result)
        assert [stream.received for stream in result.streams] == [3000, 3000, 0]
        assert result.streams[2].misdelivered == result.misdelivered == 3000
        assert result.duplicated == result.reordered == 0
        assert result.generator.stale == result.generator.foreign == 0
        workers = result.generator.workers
        assert [worker.cpu for worker in workers] == sorted(os.sched_getaffinity(0))[:2]
        assert all(0 < (worker.on_core_share or 0) <= 1 for worker in workers)
        assert all(worker.busy_share > 0 for worker in workers)
        assert all(0 < worker.busy_cycles <= worker.cycles for worker in workers)
        assert all(0 < worker.busy_rounds <= worker.rounds for worker in workers)


async def test_two_workers_share_a_port(two_cores: TrafficProcess) -> None:
    await two_cores.add_port("r", "net_ring0")
    await two_cores.configure(
        [StreamSpec(name=str(i), tx_port="r", rx_port="r", flows=10) for i in range(3)]
    )
    result = await two_cores.trial(0.3, 30_000, yield_core=True, late_bound_us=LATE_US)
    assert_adds_up(result)
    assert [stream.received for stream in result.streams] == [3000] * 3
    assert result.reordered == result.duplicated == 0
    # Back to back as many as the ring holds, so that whoever is not run for a while loses none.
    result = await two_cores.trial(None, Load(packets=300), warmup_s=0.02, yield_core=True)
    assert result.sent == result.received == 900
    calibration = await two_cores.calibrate(sizes=[64], duration_s=0.05, load_pps=10_000)
    assert len(calibration.workers) == len(calibration.ceilings[0].workers) == 2


async def test_two_workers_start_read_stop(two_cores: TrafficProcess) -> None:
    await two_cores.add_port("r", "net_ring0")
    await two_cores.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
    await two_cores.start(10_000, late_bound_us=LATE_US, yield_core=True, drain_s=2.0)
    await asyncio.sleep(0.2)
    assert (await two_cores.read()).received > 0
    last = await two_cores.stop()
    assert_adds_up(last)
    assert last.lost == 0


async def test_a_core_is_named_once(tmp_path: Path) -> None:
    traffic = TrafficProcess(cpu=(0, 0), huge=False, memory_mb=192, log_path=tmp_path / "log")
    with pytest.raises(TrafficError, match="CPU 0 is named twice"):
        await traffic.connect()


async def test_loads_in_bits_and_percent(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r", size=1518)])
    for load in (Load(bps=8 * 1538 * 10_000), Load(percent=1.2304, line_rate_bps=10e9)):
        result = await ring.trial(0.1, load, late_bound_us=LATE_US)
        assert result.load_pps == pytest.approx(10_000)
        assert result.received == pytest.approx(1000, abs=1)


def write_capture(path: Path, gaps_ms: list[int]) -> None:
    """A capture of UDP packets of rising size, `gaps_ms` apart."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        time_ms = 0
        for i, gap in enumerate(gaps_ms):
            time_ms += gap
            payload = bytes(50 + i)
            udp = struct.pack(">HHHH", 1000 + i % 4, 9, 8 + len(payload), 0) + payload
            ip = struct.pack(
                ">BBHIBBH4s4s",
                0x45,
                0,
                20 + len(udp),
                0,
                64,
                17,
                0,
                bytes([10, 0, 0, 1]),
                bytes([10, 0, 0, 2]),
            )
            packet = bytes(12) + b"\x08\x00" + ip + udp
            seconds, rest = divmod(time_ms, 1000)
            file.write(struct.pack("<IIII", seconds, rest * 1000, len(packet), len(packet)))
            file.write(packet)


async def test_replay_of_a_capture(ring: TrafficProcess, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    # 10 packets in 90 ms, the next turn 10 ms after.
    write_capture(capture, [0, *[10] * 9])
    spec = ReplaySpec(name="replay", tx_port="r", rx_port="r", pcap=str(capture))
    for timing, load, packets in [
        ("original", None, 100),
        (ReplaySpeed(speed=2.5), 500.0, 250),
        ("load", 300.0, 300),
    ]:
        await ring.configure([spec.model_copy(update={"timing": timing})])
        result = await ring.trial(0.9999, load, late_bound_us=LATE_US)
        assert_adds_up(result)
        assert result.received == packets, timing
    size = result.streams[0].size
    assert size is not None
    assert size.name == "pcap:a.pcap"
    assert size.sizes == [96 + i for i in range(10)]
    assert result.streams[0].flows == 4
    with pytest.raises(TrafficError, match="/streams/0/pcap") as caught:
        await ring.configure([spec.model_copy(update={"pcap": str(tmp_path / "b.pcap")})])
    assert caught.value.code == "bad_capture"


async def test_a_burst_back_to_back(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
    result = await ring.trial(None, Load(packets=12_345), warmup_s=0.05)
    assert_adds_up(result)
    assert result.sent == result.received == 12_345
    result = await ring.trial(0.2, Load(pps=10_000, burst=50), late_bound_us=LATE_US)
    assert result.received == 2000


async def test_as_fast_as_possible(ring: TrafficProcess) -> None:
    await ring.configure(
        [
            StreamSpec(name="one", tx_port="r", rx_port="r", share=1),
            StreamSpec(name="three", tx_port="r", rx_port="r", share=3),
        ]
    )
    result = await ring.trial(0.3, None)
    assert_adds_up(result)
    assert result.unsent == result.lost == 0
    assert result.sent > 100_000
    assert result.streams[1].sent == pytest.approx(3 * result.streams[0].sent, abs=128)


async def test_what_cannot_be_sent_in_time_is_unsent(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r", size=1518)])
    result = await ring.trial(0.2, 900e6, late_bound_us=1000)
    assert_adds_up(result)
    assert result.intended == pytest.approx(180e6, rel=0.001)
    assert result.unsent > 0
    assert result.generator.limited
    assert result.loss_ratio == pytest.approx((result.unsent + result.lost) / result.intended)


async def test_start_read_stop(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
    await ring.start(10_000, late_bound_us=LATE_US)
    with pytest.raises(TrafficError, match="busy"):
        await ring.trial(1, 1)
    with pytest.raises(TrafficError, match="busy"):
        await ring.add_port("other", "net_ring1")
    await asyncio.sleep(0.3)
    first = await ring.read()
    assert first.sent > 0
    await asyncio.sleep(0.2)
    second = await ring.read()
    assert second.received > first.received
    last = await ring.stop()
    assert_adds_up(last)
    assert last.sent >= second.sent
    assert last.lost == 0
    assert last.tx_pps == pytest.approx(10_000, rel=0.2)
    again = await ring.trial(0.1, 10_000, late_bound_us=LATE_US)
    assert again.received == 1000, "a new run counts from nothing"


async def test_calibration_is_kept_in_later_results(ring: TrafficProcess) -> None:
    calibration = await ring.calibrate(sizes=[64, 1518], duration_s=0.2, load_pps=100_000)
    assert [ceiling.size for ceiling in calibration.ceilings] == [64, 1518]
    for ceiling in calibration.ceilings:
        assert ceiling.ceiling_pps > 100_000
        assert ceiling.loss_ratio == 0
    assert calibration.timing_error_ns.p50 is not None
    assert calibration.latency_floor_ns.p50 is not None
    assert calibration.latency_floor_ns.p50 >= calibration.timing_error_ns.p50
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
    result = await ring.trial(0.1, 10_000)
    assert result.calibration == calibration


async def test_calibrations_follow_each_other_at_once(traffic: TrafficProcess) -> None:
    for _ in range(12):
        calibration = await traffic.calibrate(sizes=[64], duration_s=0.01, load_pps=10_000)
        assert calibration.ceilings[0].ceiling_pps > 0
    assert await traffic.ports() == []


async def test_ends_while_it_calibrates() -> None:
    async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic:
        calibrating = asyncio.create_task(traffic.calibrate(sizes=[64] * 16, duration_s=60))
        await asyncio.sleep(0.3)
        await traffic.shutdown()
        with pytest.raises(TrafficError, match="closed"):
            await calibrating
        begin = time.monotonic()
    assert time.monotonic() - begin < 4, "ended by itself, not killed"


async def test_no_link_is_an_error_that_names_the_port(
    traffic: TrafficProcess, tmp_path: Path
) -> None:
    devargs = f"net_memif0,role=server,socket={tmp_path}/alone.sock,socket-abstract=no"
    port = await traffic.add_port("a", devargs)
    assert not port.link
    await traffic.configure([StreamSpec(name="ab", tx_port="a", rx_port="a")])
    with pytest.raises(TrafficError, match="port a has no link") as caught:
        await traffic.trial(0.1, 100)
    assert caught.value.code == "link_down"


async def test_wrong_input_names_its_place(ring: TrafficProcess) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("add_port", {"name": "x", "devargs": "net_nothing0"}, "/devargs"),
        ("add_port", {"name": "r", "devargs": "net_ring7"}, "/name"),
        ("add_port", {"name": "x", "devargs": "net_ring0"}, "/devargs"),
        ("add_port", {"devargs": "net_ring7"}, "/name"),
        ("remove_port", {"name": "zz"}, "/name"),
        ("configure", {"streams": [{"name": "s", "tx_port": "r"}]}, "/streams/0/rx_port"),
        (
            "configure",
            {"streams": [{"name": "s", "tx_port": "r", "rx_port": "q"}]},
            "/streams/0/rx_port",
        ),
        (
            "configure",
            {"streams": [{"name": "s", "tx_port": "r", "rx_port": "r", "size": 9019}]},
            "/streams/0/size",
        ),
        ("trial", {"duration_s": -1}, "/duration_s"),
        ("trial", {"duration_s": 1, "load_pps": "all"}, "/load_pps"),
        ("trial", {"duration_s": 1, "loda_pps": 5}, "/loda_pps"),
        ("calibrate", {"sizes": [64, 5]}, "/sizes/1"),
    ]
    for call, params, place in wrong:
        with pytest.raises(TrafficError) as caught:
            await ring.call(call, **params)
        assert place in caught.value.message, (call, params, caught.value.message)
    with pytest.raises(TrafficError) as caught:
        await ring.trial(1, 1)
    assert caught.value.code == "no_streams"


async def test_ports_come_and_go(traffic: TrafficProcess) -> None:
    for _ in range(3):
        await traffic.add_port("r", "net_ring0", n_descriptors=256)
        assert [port.name for port in await traffic.ports()] == ["r"]
        await traffic.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
        assert (await traffic.trial(0.05, 10_000, late_bound_us=LATE_US)).received == 500
        await traffic.remove_port("r")
        assert await traffic.ports() == []
    with pytest.raises(TrafficError) as caught:
        await traffic.trial(1, 1)
    assert caught.value.code == "no_streams"


async def test_shutdown_and_kill_end_a_run(tmp_path: Path) -> None:
    async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic:
        await traffic.add_port("r", "net_ring0")
        await traffic.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
        await traffic.start(1000)
        pid = traffic.pid
        await traffic.shutdown()
        for _ in range(100):
            await asyncio.sleep(0.05)
            if not traffic.control_path.exists():
                break
        assert not traffic.control_path.exists()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_bare_packets_are_counted_without_a_signature(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r", flows=9)])
    result = await ring.trial(0.2, 20_000, warmup_s=0.05, late_bound_us=LATE_US, bare=True)
    assert result.intended == result.sent == 4000
    assert result.latency_ns.count == 0 and result.generator.timing_error_ns is not None
    assert result.generator.timing_error_ns.count == 0
    # What is under way when the warm-up ends is not told from the trial's own.
    assert result.sent <= result.received <= result.sent + 32
    signed = await ring.trial(0.2, 20_000, late_bound_us=LATE_US)
    assert signed.received == signed.latency_ns.count == 4000


async def test_poisson_arrivals_keep_the_mean_rate(ring: TrafficProcess) -> None:
    await ring.configure([StreamSpec(name="loop", tx_port="r", rx_port="r")])
    load = Load(pps=81_920, poisson=True)  # 16384 gaps in 0.2 s: two periods
    result = await ring.trial(0.4, load, late_bound_us=LATE_US)
    assert_adds_up(result)
    assert result.intended == result.received == 32_768
    io = result.generator.io
    assert io is not None and io.tx_bursts > 0
    assert io.rx_polls >= io.rx_empty_polls + io.rx_full_polls
    with pytest.raises(TrafficError, match="/poisson: needs a load"):
        await ring.trial(0.1, Load(packets=5, poisson=True))
