# SPDX-License-Identifier: Apache-2.0
"""Jumbo frames through every kind of port, and the columns mtu and mtu_request."""

from __future__ import annotations

import asyncio
import struct
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.traffic import TrialResult
from tests.support.frames import checksum, udp_frame
from tests.support.headrace_port import VnfPort
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair
from tests.switch.test_switch_devices import LATE_US, Bench, bench

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


async def _hundred(wired: Bench) -> TrialResult:
    return await wired.traffic.trial(
        0.2, 500, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
    )


@pytest.mark.parametrize("kind", ["memif", "vhost"])
async def test_longer_than_the_mtu_of_a_vnfs_port(rundir: Path, kind: str) -> None:
    """One frame of the MTU passes, with a VLAN tag's octets too; one octet more is a named drop."""
    async with bench(rundir, kind, settings=("mtu_request=1000",), frame_size=1018 + 4) as wired:
        result = await _hundred(wired)
        assert (result.sent, result.received) == (100, 100), await wired.call("show")
        for name in wired.devices:
            await wired.vsctl("set", "Interface", name, "mtu_request=999")
        result = await _hundred(wired)
        assert (result.sent, result.received) == (100, 0), await wired.call("show")
        drops = (await wired.call("drops"))["lsis"][0]
        assert drops["drops"] == {"mtu-exceeded": 100}


@pytest.mark.parametrize("kind", ["system", "tap", "internal"])
def test_longer_than_the_mtu_of_a_kernel_port(switch: Switch, kind: str) -> None:
    """What is too long is dropped under a name, what is around it passes; and the interface's MTU
    is followed when somebody else changes it."""
    bridge = unique_bridge()
    with ExitStack() as stack:
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        pairs = [stack.enter_context(VethPair())]
        for pair in pairs:
            _ip("link", "set", pair.far, "mtu", "2000")
        ports = [pairs[0].near]
        mtus = ["mtu_request=2000", "mtu_request=1000"]
        if kind == "system":
            pairs.append(stack.enter_context(VethPair()))
            _ip("link", "set", pairs[1].far, "mtu", "2000")
            ports.append(pairs[1].near)
        else:
            ports.append(f"{bridge}t")
        for number, (name, mtu) in enumerate(zip(ports, mtus, strict=True), 1):
            switch.vsctl(
                "add-port", bridge, name, "--", "set", "Interface", name,
                f"type={kind if number == 2 else 'system'}", f"ofport_request={number}", mtu,
            )  # fmt: skip
            assert switch.interface(name, "error") == ["set", []]
            stack.callback(switch.vsctl, "del-port", bridge, name)
        if kind == "internal":
            _ip("link", "set", ports[1], "up")
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        sender = RawPort(pairs[0].far)
        stack.callback(sender.close)
        receiver = RawPort(pairs[1].far if kind == "system" else ports[1])
        stack.callback(receiver.close)
        assert switch.process is not None
        switch.process.wait_until(lambda: switch.port(ports[1])["link_up"])

        def pass_on(*sizes: int) -> list[int]:
            """Sizes of those that arrive; the shortest, at the end, always does."""
            for number, size in enumerate((*sizes, 60)):
                sender.send(udp_frame(udp_src=number, size=size))
            got: list[int] = []
            while not got or got[-1] != 60:
                frames = receiver.receive(1)
                assert frames, (got, switch.call("drops"))
                got += [len(frame) for frame in frames if frame[12:14] == b"\x08\x00"]
            return got[:-1]

        def exceeded() -> int:
            statistics = dict(switch.interface(ports[1], "statistics")[1])
            return int(statistics.get("ovs_tx_mtu_exceeded_drops", 0))

        assert pass_on(1014, 1019, 1013, 2000, 1500, 1014) == [1014, 1013, 1014]
        drops = switch.call("drops")["lsis"][0]
        assert drops["drops"].get("mtu-exceeded") == 3, drops
        switch.process.wait_until(lambda: exceeded() == 3)
        _ip("link", "set", ports[1], "mtu", "1500")
        switch.process.wait_until(lambda: switch.interface(ports[1], "mtu") == 1500)
        assert pass_on(1514, 1519, 1019) == [1514, 1019]
        switch.process.wait_until(lambda: exceeded() == 4)


def test_longer_than_the_buffers_of_a_shared_memory_group(switch: Switch) -> None:
    """The frames around one that is too long pass; before, it kept the burst behind it out."""
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
    for number, (port, room) in enumerate((("wide", 2176), ("narrow", 1200)), start=1):
        switch.vsctl(
            "add-port", bridge, port, "--", "set", "Interface", port, "type=shm",
            f"options:group=g{port}", f"options:buffer-size={room}", f"ofport_request={number}",
        )  # fmt: skip
    assert switch.interface("narrow", "mtu") == 1200 - 128 - 22
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    assert switch.process is not None
    with ExitStack() as stack:
        sender, receiver = (
            VnfPort(switch.rundir / f"g{port}.shm", port) for port in ("wide", "narrow")
        )
        stack.callback(sender.close)
        stack.callback(receiver.close)
        switch.process.wait_until(lambda: switch.port("narrow")["link_up"])
        frames = [udp_frame(udp_src=n, size=(60, 1068, 1069, 1500)[n % 4]) for n in range(16)]
        left, got = list(frames), []

        def move() -> bool:
            del left[: sender.send(left)]
            got.extend(receiver.receive())
            return len(got) == 8

        switch.process.wait_until(move)
        assert got == [frame for frame in frames if len(frame) <= 1068]
        assert switch.call("drops")["lsis"][0]["drops"] == {"mtu-exceeded": 8}


@pytest.mark.parametrize("mtu", [JUMBO_MTU, None])
def test_dpdk_ports_carry_jumbo_frames(switch: Switch, rundir: Path, mtu: int | None) -> None:
    """From a capture by a ring into a capture; without mtu_request they are received in several
    buffers each, and none may leave."""
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
    if mtu is None:
        lost = {"mtu-exceeded": len(frames)}
        switch.process.wait_until(lambda: switch.call("drops")["lsis"][0]["drops"] == lost)
        return
    switch.process.wait_until(lambda: switch.port("j3")["counters"]["tx_packets"] >= len(frames))
    counters = switch.port("j2")["counters"]
    assert counters["rx_packets"] == counters["tx_packets"] == len(frames)
    assert counters["rx_bytes"] == counters["tx_bytes"] == sum(len(frame) for frame in frames)
    switch.vsctl("del-br", bridge)  # what was written is flushed
    assert _read_capture(rundir / "out.pcap") == [_with_tos(frame, 32) for frame in frames]
