# SPDX-License-Identifier: Apache-2.0
import base64
import struct
from typing import Any

import pytest

from headrace.traffic import StreamSpec, TrafficError, Variation, Zipf
from headrace.traffic.trex import TrexGenerator
from headrace.traffic.trex.packets import Unsupported, packet, program, size_weights
from headrace.traffic.trex.wire import MAGIC, TrexConnection, TrexError, pack, unpack
from tests.traffic.fake_trex import Device, FakeTrex


def spec(**more: Any) -> StreamSpec:
    return StreamSpec.model_validate({"name": "ab", "tx_port": "0", "rx_port": "1", **more})


async def trial(device: Device, load_pps: float, *specs: StreamSpec) -> Any:
    with FakeTrex(device) as server:
        async with TrexGenerator("127.0.0.1", server.port) as trex:
            await trex.configure(specs or [spec()])
            return await trex.trial(0.1, load_pps, drain_s=0)


async def test_below_capacity_nothing_is_lost() -> None:
    result = await trial(Device(capacity_pps=1e6), 500_000)
    assert result.intended == result.sent == result.received == 50_000
    assert result.lost == result.unsent == result.misdelivered == 0
    assert result.loss_ratio == 0
    assert not result.generator.limited
    assert result.generator.busy_share == 0.25


async def test_above_capacity_half_is_lost() -> None:
    result = await trial(Device(capacity_pps=1e6), 2e6)
    assert result.sent == 200_000
    assert result.received == pytest.approx(100_000, abs=2)
    assert result.loss_ratio == pytest.approx(0.5, abs=0.001)
    assert result.received + result.lost == result.sent


async def test_what_trex_cannot_send_is_unsent_and_loss() -> None:
    result = await trial(Device(sendable_pps=750_000), 1e6)
    assert result.intended == 100_000
    assert result.unsent == pytest.approx(25_000, abs=2)
    assert result.lost == 0
    assert result.loss_ratio == pytest.approx(0.25, abs=0.001)
    assert result.generator.limited


async def test_latency_order_copies_and_strays() -> None:
    result = await trial(Device(duplicated=7, stray=4), 100_000)
    stream = result.streams[0]
    assert stream.duplicated == 7
    assert stream.reordered == 3
    assert stream.received == stream.sent == 10_000
    assert stream.misdelivered == 8, "4 of the load, 4 of the latency stream"
    # 1000 packets/s are stamped: 100, of which 1 took ten times as long.
    assert stream.latency_ns.count == 100
    assert stream.latency_ns.min == 15_000
    assert stream.latency_ns.p50 == stream.latency_ns.p99 == 20_000
    assert stream.latency_ns.p99_9 == 200_000
    assert stream.pdv_ns == 185_000


async def test_a_second_trial_counts_from_nothing() -> None:
    with FakeTrex(Device()) as server:
        async with TrexGenerator("127.0.0.1", server.port) as trex:
            await trex.configure([spec()])
            await trex.trial(0.05, 100_000, drain_s=0)
            result = await trex.trial(0.05, 100_000, drain_s=0)
    assert result.sent == result.received == 5000
    assert result.latency_ns.count == 50
    assert result.reordered == 0


async def test_two_directions_share_the_load_and_imix_its_sizes() -> None:
    with FakeTrex(Device()) as server:
        async with TrexGenerator("127.0.0.1", server.port) as trex:
            back = spec(name="ba", tx_port="1", rx_port="0", share=3, size="imix-csit")
            await trex.configure([spec(), back])
            result = await trex.trial(0.1, 400_000, drain_s=0)
        added = [params for method, params in server.calls if method == "add_stream"]
    assert [stream.sent for stream in result.streams] == [10_000, 30_000]
    assert result.streams[1].size is not None
    assert result.streams[1].size.mean == pytest.approx(353.83, abs=0.01)
    sizes = {
        len(base64.b64decode(params["stream"]["packet"]["binary"])) + 4: params["stream"]["mode"][
            "rate"
        ]["value"]
        for params in added
        if params["port_id"] == 1 and params["stream"]["flow_stats"]["rule_type"] == "stats"
    }
    assert sizes == pytest.approx({64: 299e3 * 7 / 12, 570: 299e3 * 4 / 12, 1518: 299e3 / 12})
    assert all(params["handler"] == f"h{params['port_id']}" for params in added)


@pytest.mark.parametrize("compressed", [True, False])
async def test_busy_servers_and_plain_answers(compressed: bool) -> None:
    result = await trial(Device(busy_answers=2, compressed=compressed), 1000)
    assert result.received == 100


async def test_ports_are_given_back() -> None:
    with FakeTrex(Device()) as server:
        async with TrexGenerator("127.0.0.1", server.port) as trex:
            assert [port.name for port in await trex.ports()] == ["0", "1", "2"]
        released = [params["port_id"] for method, params in server.calls if method == "release"]
    assert released == [0, 1, 2]


async def test_errors() -> None:
    with FakeTrex(Device(link_up=False)) as server:
        async with TrexGenerator("127.0.0.1", server.port) as trex:
            with pytest.raises(TrafficError, match="configure first"):
                await trex.trial(0.1, 1)
            with pytest.raises(TrafficError, match="no port 7"):
                await trex.configure([spec(rx_port="7")])
            with pytest.raises(TrafficError, match="stream ab: popularity"):
                await trex.configure([spec(popularity=Zipf(zipf=1))])
            await trex.configure([spec()])
            with pytest.raises(TrafficError, match="port 1 has no link") as caught:
                await trex.trial(0.1, 1)
            assert caught.value.code == "link_down"


async def test_a_refusal_and_a_silent_server() -> None:
    with FakeTrex(Device()) as server:
        wire = TrexConnection("127.0.0.1", server.port)
        await wire.open()
        with pytest.raises(TrexError, match="no frobnicate") as caught:
            await wire.call("frobnicate")
        assert caught.value.code == -32601
        wire.close()
        port = server.port
    wire = TrexConnection("127.0.0.1", port, timeout_s=0.2)
    with pytest.raises(TrexError, match="is TRex there"):
        await wire.open()
    wire.close()


def test_frames_on_the_wire() -> None:
    message = {"method": "ping", "params": {"text": "x" * 1000}}
    frame = pack(message)
    assert struct.unpack(">II", frame[:8])[0] == MAGIC
    assert unpack(frame) == message
    for broken in (frame[:-5], frame[:8] + b"junk", b"{", struct.pack(">II", MAGIC, 5) + frame[8:]):
        with pytest.raises(TrexError):
            unpack(broken)


def test_packets_have_right_lengths_and_checksums() -> None:
    frame = packet(spec(vlan=5, src_ip="10.0.0.1", dst_ip="10.0.0.2", dst_port=53), 128)
    assert len(frame) == 124
    assert frame[12:18] == bytes([0x81, 0, 0, 5, 8, 0])
    header = frame[18:38]
    assert struct.unpack(">H", header[2:4])[0] == 124 - 18
    words = sum(struct.unpack(">10H", header))
    assert (words & 0xFFFF) + (words >> 16) == 0xFFFF
    assert struct.unpack(">HHHH", frame[38:46]) == (49152, 53, 124 - 38, 0)


def test_programs_vary_what_was_asked() -> None:
    assert program(spec()) == []
    steps = program(
        spec(flows=1000, vary=[Variation(field="ipv4_dst", step=256, count=10), "udp_src"])
    )
    assert [step["type"] for step in steps] == [
        "flow_var",
        "write_flow_var",
        "flow_var",
        "write_flow_var",
        "fix_checksum_ipv4",
    ]
    assert steps[0]["init_value"] == 0xC6130001
    assert steps[0]["max_value"] == 0xC6130001 + 256 * 9
    assert (steps[1]["pkt_offset"], steps[3]["pkt_offset"], steps[4]["pkt_offset"]) == (30, 34, 14)
    assert steps[2]["size"] == 2
    for wrong in (
        {"flows": 20_000, "vary": ["udp_src"]},
        {"flows": 2, "vary": ["tunnel_id"]},
        {"flows": 2, "popularity": Zipf(zipf=1)},
    ):
        with pytest.raises(Unsupported):
            program(spec(**wrong))


def test_sizes() -> None:
    assert size_weights(64) == {64: 1}
    assert size_weights("imix-genome:gaa") == {64: 2, 1518: 1}
    for wrong in ("imix", "imix-genome:", "imix-genome:q"):
        with pytest.raises(Unsupported):
            size_weights(wrong)
