# SPDX-License-Identifier: Apache-2.0
"""Jumbo frames through every kind of port, and the columns mtu and mtu_request."""

from __future__ import annotations

import asyncio
import struct
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.frames import checksum, udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair
from tests.switch.test_switch_devices import LATE_US, bench

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

JUMBO_MTU = 9000
JUMBO_FRAME = JUMBO_MTU + 14  # without FCS


@pytest.mark.parametrize("kind", ["memif", "memif-client", "vhost"])
async def test_shared_memory_ports_carry_jumbo_frames(rundir: Path, kind: str) -> None:
    settings = (f"mtu_request={JUMBO_MTU}",)
    async with bench(rundir, kind, settings=settings, frame_size=JUMBO_FRAME + 4) as wired:
        for name in ("a", "b"):
            assert await asyncio.to_thread(wired.switch.interface, name, "mtu") == JUMBO_MTU
        result = await wired.traffic.trial(
            0.5, 400, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
        )
        assert result.sent == 200
        assert result.received == 200, await wired.call("drops")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def test_system_ports_carry_jumbo_frames(switch: Switch) -> None:
    bridge = unique_bridge()
    with ExitStack() as stack:
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        far: list[RawPort] = []
        for number in (1, 2):
            pair = stack.enter_context(VethPair())
            _ip("link", "set", pair.far, "mtu", str(JUMBO_MTU))
            switch.vsctl(
                "add-port", bridge, pair.near, "--", "set", "Interface", pair.near, "type=system",
                f"ofport_request={number}", f"mtu_request={JUMBO_MTU}",
            )  # fmt: skip
            assert switch.interface(pair.near, "mtu") == JUMBO_MTU
            assert Path(f"/sys/class/net/{pair.near}/mtu").read_text().strip() == str(JUMBO_MTU)
            status = dict(switch.interface(pair.near, "status")[1])
            assert (status["mode"], status["mode_reason"]) == ("af_packet", "virtual interface")
            far.append(RawPort(pair.far))
            stack.callback(far[-1].close)
            stack.callback(switch.vsctl, "del-port", bridge, pair.near)
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        frames = [udp_frame(udp_src=n, size=JUMBO_FRAME) for n in range(600)]
        for start in range(0, len(frames), 20):
            for frame in frames[start : start + 20]:
                far[0].send(frame)
            assert far[1].receive(20) == frames[start : start + 20], switch.call("drops")


def test_system_ports_by_xdp(switch: Switch) -> None:
    bridge = unique_bridge()
    with ExitStack() as stack:
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        far: list[RawPort] = []
        for number in (1, 2):
            pair = stack.enter_context(VethPair())
            switch.vsctl(
                "add-port", bridge, pair.near, "--", "set", "Interface", pair.near, "type=system",
                "options:mode=af_xdp", f"ofport_request={number}",
            )  # fmt: skip
            if "cannot make" in str(switch.interface(pair.near, "error")):
                pytest.skip("no AF_XDP here")
            assert dict(switch.interface(pair.near, "status")[1])["mode"] == "af_xdp"
            far.append(RawPort(pair.far))
            stack.callback(far[-1].close)
            stack.callback(switch.vsctl, "del-port", bridge, pair.near)
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        frames = [udp_frame(udp_src=n) for n in range(200)]
        for frame in frames:
            far[0].send(frame)
        assert far[1].receive(200) == frames, switch.call("drops")
        assert "af_xdp" in switch.vsctl("get", "Interface", pair.near, "status:mode")
        switch.vsctl("set", "Interface", pair.near, "mtu_request=9000")
        assert "use af_packet" in switch.interface(pair.near, "error")


def test_a_tap_takes_jumbo_frames(switch: Switch) -> None:
    bridge = unique_bridge()
    name = f"{bridge}1"
    switch.vsctl("add-br", bridge)
    switch.vsctl(
        "add-port", bridge, name, "--", "set", "Interface", name, "type=tap", "mtu_request=9000"
    )
    assert switch.interface(name, "error") == ["set", []]
    assert switch.interface(name, "mtu") == 9000


def test_mtu_changes_at_run_time(switch: Switch) -> None:
    bridge = unique_bridge()
    switch.vsctl(
        "add-br", bridge, "--", "add-port", bridge, "n", "--", "set", "Interface", "n",
        "type=dpdk", "options:dpdk-devargs=net_ring_mtu", "mtu_request=1400",
    )  # fmt: skip
    for mtu in (9000, 1500, 1400):
        switch.vsctl("set", "Interface", "n", f"mtu_request={mtu}")
        error = switch.interface("n", "error")
        assert error == ["set", []], error
        assert switch.interface("n", "mtu") == mtu
    switch.vsctl("set", "Interface", "n", "mtu_request=20000")
    assert "9978" in switch.interface("n", "error")


def _write_capture(path: Path, frames: list[bytes]) -> None:
    """A pcap file (libpcap's classic format, microseconds, Ethernet)."""
    header = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = (struct.pack("=IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
    path.write_bytes(header + b"".join(records))


def _read_capture(path: Path) -> list[bytes]:
    data, frames = path.read_bytes(), []
    at = 24
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("=I", data, at + 8)
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def _with_tos(frame: bytes, tos: int) -> bytes:
    at = 14 if frame[12:14] == b"\x08\x00" else 18
    ip = frame[at : at + 1] + bytes([tos]) + frame[at + 2 : at + 10] + b"\0\0"
    ip += frame[at + 12 : at + 20]
    return frame[:at] + ip[:10] + struct.pack("!H", checksum(ip)) + frame[at + 12 :]


@pytest.mark.parametrize("mtu", [JUMBO_MTU, None])
def test_dpdk_ports_carry_jumbo_frames(switch: Switch, rundir: Path, mtu: int | None) -> None:
    """From a capture by a ring into a capture; without mtu_request in several buffers each."""
    bridge = unique_bridge()
    frames = [udp_frame(udp_src=n, size=JUMBO_FRAME) for n in range(40)]
    frames += [udp_frame(udp_src=n, size=JUMBO_FRAME + 4, vlan=5) for n in range(40)]
    _write_capture(rundir / "in.pcap", frames)
    request = [] if mtu is None else [f"mtu_request={mtu}"]
    switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
    for number, devargs in (
        (2, "net_ring_jumbo"),
        (3, f"net_pcap_out,tx_pcap={rundir}/out.pcap"),
    ):
        switch.vsctl(
            "add-port", bridge, f"j{number}", "--", "set", "Interface", f"j{number}", "type=dpdk",
            f"options:dpdk-devargs={devargs}", f"ofport_request={number}", *request,
        )  # fmt: skip
        assert switch.interface(f"j{number}", "error") == ["set", []]
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    switch.ofctl("add-flow", bridge, "in_port=2,udp,actions=mod_nw_tos:32,output:3")
    switch.vsctl(
        "add-port", bridge, "j1", "--", "set", "Interface", "j1", "type=dpdk",
        f"options:dpdk-devargs=net_pcap_in,rx_pcap={rundir}/in.pcap", "ofport_request=1", *request,
    )  # fmt: skip
    assert switch.process is not None
    switch.process.wait_until(lambda: switch.port("j3")["counters"]["tx_packets"] >= len(frames))
    counters = switch.port("j2")["counters"]
    assert counters["rx_packets"] == counters["tx_packets"] == len(frames)
    assert counters["rx_bytes"] == counters["tx_bytes"] == sum(len(frame) for frame in frames)
    switch.vsctl("del-br", bridge)  # what was written is flushed
    assert _read_capture(rundir / "out.pcap") == [_with_tos(frame, 32) for frame in frames]
