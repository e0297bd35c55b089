# SPDX-License-Identifier: Apache-2.0
"""A virtual machine on the kernel's tap interfaces, which are the switch's system ports."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.engines.qemu import Tap
from tests.guest.bed import PER_DIRECTION, running_bed
from tests.guest.guest import Guest, base_image, require_guest, wire

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

_numbers = itertools.count()
QUEUE = 4096


@contextmanager
def tap_interface() -> Iterator[str]:
    """A tap interface that is up, without IPv6 noise, whose queue holds a whole trial."""
    name = f"hrt{os.getpid() % 1_000_000}{next(_numbers)}"

    def ip(*words: str) -> None:
        subprocess.run(["/usr/sbin/ip", *words], check=True, capture_output=True)

    ip("tuntap", "add", name, "mode", "tap")
    try:
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        ip("link", "set", name, "up", "txqueuelen", str(QUEUE))
        yield name
    finally:
        subprocess.run(["/usr/sbin/ip", "link", "del", name], check=False, capture_output=True)


@pytest.mark.parametrize(
    "vhost",
    [
        pytest.param(False, id="qemu"),
        pytest.param(
            True,
            id="vhost-net",
            marks=pytest.mark.skipif(
                not Path("/dev/vhost-net").exists(), reason="this kernel has no vhost-net"
            ),
        ),
    ],
)
async def test_the_guest_forwards_every_packet(vhost: bool) -> None:
    kernel = require_guest()
    with tap_interface() as first, tap_interface() as second:
        async with running_bed() as bed:
            devices = [
                Tap(name, f"02:00:00:00:01:{number:02x}", vhost=vhost)
                for number, name in enumerate((first, second))
            ]
            guest = Guest(bed.switch.rundir, kernel, base_image(kernel), devices)
            try:
                await asyncio.to_thread(guest.boot)
                await asyncio.to_thread(wire, guest, "br0", "eth0", "eth1")
                for name in (first, second):
                    await bed.add(name, "system")
                await bed.join(first, second)
                result = await bed.trial()
                assert result.sent == result.received == 2 * PER_DIRECTION, await bed.everything()
                assert result.duplicated == result.reordered == result.misdelivered == 0
                for nic in ("eth0", "eth1"):
                    assert guest.counter(nic, "rx_packets") == PER_DIRECTION
                    assert guest.counter(nic, "tx_packets") == PER_DIRECTION
            finally:
                guest.stop()
