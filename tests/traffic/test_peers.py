# SPDX-License-Identifier: Apache-2.0
"""The generator over ports that have a peer: vhost-user and a kernel interface."""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.traffic import StreamSpec, TrafficError, TrafficProcess
from tests.support.janitor import removed_at_the_latest

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

LATE_US = 5e6


def virtio_user(path: Path) -> str:
    return (
        f"net_virtio_user0,path={path},server=1,packed_vq=1,in_order=1,mrg_rxbuf=0,"
        "vectorized=1,queue_size=1024"
    )


async def test_virtio_user_server_with_its_vhost_client(
    traffic: TrafficProcess, tmp_path: Path
) -> None:
    path = tmp_path / "vhost.sock"
    # The switch's side: a vhost client that tries again until the server is there.
    await traffic.add_port("switch", f"net_vhost0,iface={path},client=1")
    await traffic.add_port("vnf", virtio_user(path))
    await traffic.wait_links(timeout_s=10)
    await traffic.configure(
        [
            StreamSpec(name="out", tx_port="vnf", rx_port="switch", size=64, flows=10),
            StreamSpec(name="back", tx_port="switch", rx_port="vnf", size="imix-csit"),
        ]
    )
    result = await traffic.trial(0.3, 20_000, late_bound_us=LATE_US)
    assert [stream.received for stream in result.streams] == [3000, 3000]
    assert result.lost == result.duplicated == result.misdelivered == 0


async def test_a_peer_that_never_comes_is_an_error_and_nothing_hangs(
    traffic: TrafficProcess, tmp_path: Path
) -> None:
    path = tmp_path / "vhost.sock"
    begin = time.monotonic()
    adding = asyncio.create_task(traffic.add_port("vnf", virtio_user(path), wait_s=1))
    await asyncio.sleep(0.3)
    assert (await traffic.ping())["program"] == "headrace-traffic", "answers while it waits"
    with pytest.raises(TrafficError, match="busy"):
        await traffic.add_port("r", "net_ring0")
    with pytest.raises(TrafficError) as caught:
        await adding
    assert caught.value.code == "no_peer"
    assert time.monotonic() - begin < 10
    assert await traffic.ports() == []
    await traffic.add_port("r", "net_ring0")


@pytest.mark.parametrize("delay_s", [0.0, 0.002, 0.01, 0.3])
async def test_ends_while_it_waits_for_a_peer(tmp_path: Path, delay_s: float) -> None:
    async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic:
        adding = asyncio.create_task(traffic.add_port("vnf", virtio_user(tmp_path / "vhost.sock")))
        # At any moment of it: before the driver listens, and after.
        await asyncio.sleep(delay_s)
        await traffic.shutdown()
        with pytest.raises(TrafficError, match="closed"):
            await adding
        begin = time.monotonic()
    assert time.monotonic() - begin < 4, "ended by itself, not killed"


async def test_a_peer_that_is_killed_is_loss_and_may_come_back(
    traffic: TrafficProcess, tmp_path: Path
) -> None:
    path = tmp_path / "vhost.sock"
    streams = [StreamSpec(name="out", tx_port="p", rx_port="p")]
    for _ in range(2):
        async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as peer:
            # The peer is the server: what it leaves behind must not be in its successor's way.
            adding = asyncio.create_task(peer.add_port("p", virtio_user(path)))
            if not await traffic.ports():
                await traffic.add_port("p", f"net_vhost0,iface={path},client=1")
                await traffic.configure(streams)
            await adding
            await traffic.wait_links(timeout_s=20)
            await peer.configure(streams)
            await peer.start(20_000, yield_core=True)
            trial = asyncio.create_task(traffic.trial(1, 20_000, yield_core=True, drain_s=0.05))
            await asyncio.sleep(0.4)
            assert peer.pid is not None
            os.kill(peer.pid, signal.SIGKILL)
            result = await trial
        assert result.sent > 0
        assert result.unsent > 0
        assert result.intended == 20_000
        for _ in range(200):
            if not (await traffic.ports())[0].link:
                break
            await asyncio.sleep(0.05)
        assert not (await traffic.ports())[0].link


@pytest.fixture
def veth() -> Iterator[tuple[str, str]]:
    """Two ends of one cable, in the root namespace, without the kernel's own chatter."""
    a, b = (f"hrt{os.getpid() % 1_000_000}{end}" for end in "ab")

    def ip(*args: str) -> None:
        subprocess.run(["/usr/sbin/ip", *args], check=True, capture_output=True)

    with removed_at_the_latest("link", a):
        ip("link", "add", a, "type", "veth", "peer", "name", b)
        try:
            for name in (a, b):
                Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
                ip("link", "set", name, "up")
            yield a, b
        finally:
            ip("link", "del", a)


async def test_veth_pair(traffic: TrafficProcess, veth: tuple[str, str]) -> None:
    for i, name in enumerate(veth):
        await traffic.add_port(name, f"net_af_packet{i},iface={name}")
    await traffic.wait_links(timeout_s=10)
    a, b = veth
    await traffic.configure(
        [
            StreamSpec(name="ab", tx_port=a, rx_port=b, size=64, flows=5),
            StreamSpec(name="ba", tx_port=b, rx_port=a, size=1518),
        ]
    )
    result = await traffic.trial(0.5, 4000, late_bound_us=LATE_US, drain_s=1)
    assert [stream.received for stream in result.streams] == [1000, 1000]
    assert result.lost == result.misdelivered == result.reordered == 0
