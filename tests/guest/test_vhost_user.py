# SPDX-License-Identifier: Apache-2.0
"""A virtual machine that forwards between vhost-user ports of the switch; all packets counted.

One guest serves all tests of this file: eth0 and eth1 are on sockets that QEMU makes (the switch's
type dpdkvhostuserclient), eth2 and eth3 on sockets of the switch (dpdkvhostuser).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from headrace.engines.qemu import VhostUser
from tests.guest.bed import PER_DIRECTION, Bed, running_bed
from tests.guest.guest import Guest, base_image, require_guest, wire

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.asyncio(loop_scope="module"),
]

PACKETS = 2 * PER_DIRECTION
PAIRS = {"dpdkvhostuserclient": ("v0", "v1"), "dpdkvhostuser": ("v2", "v3")}
INTERFACES = {"v0": "eth0", "v1": "eth1", "v2": "eth2", "v3": "eth3"}


@dataclass
class Wired:
    """The bed and the guest on it."""

    bed: Bed
    guest: Guest

    def in_guest(self, port: str, counter: str) -> int:
        """A counter of the guest's interface behind the switch's `port`."""
        return self.guest.counter(INTERFACES[port], counter)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wired() -> AsyncIterator[Wired]:
    kernel = require_guest()
    async with running_bed() as bed:
        rundir = bed.switch.rundir
        devices = []
        for number, name in enumerate(INTERFACES):
            if name in PAIRS["dpdkvhostuserclient"]:
                path = rundir / f"{name}.sock"
                await bed.add(name, "dpdkvhostuserclient", f"options:vhost-server-path={path}")
            else:
                path = rundir / name
                await bed.add(name, "dpdkvhostuser")
            listens = name in PAIRS["dpdkvhostuserclient"]
            devices.append(VhostUser(path, f"02:00:00:00:01:{number:02x}", listens=listens))
        guest = Guest(rundir, kernel, base_image(kernel), devices)
        try:
            await asyncio.to_thread(guest.boot)
            for number, pair in enumerate(PAIRS.values()):
                interfaces = [INTERFACES[name] for name in pair]
                await asyncio.to_thread(wire, guest, f"br{number}", *interfaces)
            yield Wired(bed, guest)
        finally:
            guest.stop()


@pytest.mark.parametrize("kind", list(PAIRS))
async def test_the_guest_forwards_every_packet(wired: Wired, kind: str) -> None:
    first, second = PAIRS[kind]
    await wired.bed.join(first, second)
    before = {name: await wired.bed.counters(name) for name in (first, second)}
    in_guest = {n: wired.in_guest(n, "rx_packets") for n in (first, second)}
    result = await wired.bed.trial()
    assert result.sent == result.received == PACKETS, await wired.bed.everything()
    assert result.duplicated == result.reordered == result.misdelivered == 0
    for name in (first, second):
        after = await wired.bed.counters(name)
        assert after["rx_packets"] - before[name]["rx_packets"] == PER_DIRECTION
        assert after["tx_packets"] - before[name]["tx_packets"] == PER_DIRECTION
        assert wired.in_guest(name, "rx_packets") - in_guest[name] == PER_DIRECTION
    sizes = {stream.name: stream for stream in result.streams}
    assert sizes["ba"].received == PER_DIRECTION


async def test_what_is_too_much_for_the_guest_is_counted_where_it_is_lost(wired: Wired) -> None:
    first, second = PAIRS["dpdkvhostuserclient"]
    await wired.bed.join(first, second)
    names = ("a", "b", first, second)
    before = {name: await wired.bed.counters(name) for name in names}
    in_guest = {n: wired.in_guest(n, "rx_packets") for n in (first, second)}
    result = await wired.bed.trial(40_000, 400_000, drain_s=3.0)
    after = {name: await wired.bed.counters(name) for name in names}

    def grown(name: str, counter: str) -> int:
        return after[name].get(counter, 0) - before[name].get(counter, 0)

    assert result.lost > 0, "a guest under TCG does not take this"
    taken = grown("a", "rx_packets") + grown("b", "rx_packets")
    assert taken == result.sent
    refused = grown(first, "tx_dropped") + grown(second, "tx_dropped")
    to_guest = grown(first, "tx_packets") + grown(second, "tx_packets")
    assert to_guest + refused == taken
    got = sum(wired.in_guest(n, "rx_packets") - in_guest[n] for n in (first, second))
    assert got == to_guest
    back = grown(first, "rx_packets") + grown(second, "rx_packets")
    assert back == got, "the guest's bridge drops nothing"
    refused_last = grown("a", "tx_dropped") + grown("b", "tx_dropped")
    assert result.received + refused_last == back
    assert result.duplicated == result.misdelivered == 0


async def test_a_killed_switch_comes_back_to_a_running_guest(wired: Wired) -> None:
    await wired.bed.join(*PAIRS["dpdkvhostuserclient"])
    uptime = float(wired.guest.run("cat /proc/uptime").split()[0])
    await wired.bed.restart_switch()
    for pair in PAIRS.values():
        await wired.bed.join(*pair)
        result = await wired.bed.trial()
        assert result.sent == result.received == PACKETS, await wired.bed.everything()
    assert float(wired.guest.run("cat /proc/uptime").split()[0]) > uptime, "it was not restarted"
