# SPDX-License-Identifier: Apache-2.0
"""Vhost-user ports with packed rings, and guests whose buffers have no room for a header."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch
from tests.support.vhost_guest import (
    DESC_NEXT,
    DESC_WRITE,
    F_MRG_RXBUF,
    HEADER,
    SET_MEM_TABLE,
    SET_VRING_ADDR,
    SET_VRING_BASE,
    SET_VRING_CALL,
    SET_VRING_KICK,
    SET_VRING_NUM,
    SLOT,
    USER_BASE,
    Guest,
    guest,
)
from tests.support.vhost_ports import add_guest_ports, numbered, wait_for_link, wait_until

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

F_RING_PACKED = 1 << 34
DESC_AVAIL, DESC_USED = 1 << 7, 1 << 15
WRAP = 0x8000
"""Of a ring's base: the wrap counter is 1."""
EVENTS_OFF = 1
FAR = 1 << 40
BEHIND = 4096


class GuestWithTwoRegions(Guest):
    """Shares a second region, which the switch maps first: the other lies below it, if nothing is
    put in between."""

    def __init__(self, path: Path, *, features: int = 0) -> None:
        super().__init__(path, features=features)
        self._second = os.memfd_create("behind")
        os.ftruncate(self._second, len(self.memory))

    def close(self) -> None:
        """As if the machine was switched off; twice is as good as once."""
        if not self.memory.closed:
            os.close(self._second)
        super().close()

    def share_memory(self, *, size: int | None = None) -> None:
        """Shares both."""
        octets = len(self.memory) if size is None else size
        regions = struct.pack("=QQQQ", FAR, octets, USER_BASE + FAR, 0)
        regions += struct.pack("=QQQQ", 0, octets, USER_BASE, 0)
        files = (self._second, self.file)
        self.tell(SET_MEM_TABLE, struct.pack("=II", len(files), 0) + regions, files=files)

    def behind(self) -> bytes:
        """The first octets of the second region."""
        return os.pread(self._second, BEHIND, 0)


class SplitGuest(GuestWithTwoRegions):
    """A guest with one pair of split rings, whose receive buffers are chains of three."""

    def ready(self, *, addr: int, length: int) -> None:
        """Starts; the first two of a chain have `length` octets at `addr`."""
        self.start()
        vring = self.vrings[0]
        for slot in range(self.size):
            chain = DESC_WRITE if slot % 4 >= 2 else DESC_WRITE | DESC_NEXT
            if slot % 4 < 2:
                vring.describe(slot, addr=addr, length=length, flags=chain, next=slot + 1)
            else:
                vring.describe(slot, flags=chain)

    def _give(self, pair: int, slot: int) -> None:
        if slot % 4 == 0:
            self.vrings[2 * pair].offer(slot)


class PackedGuest(GuestWithTwoRegions):
    """A guest with one pair of packed rings (virtio 1.2, 2.8), which receives one ringful."""

    def __init__(self, path: Path, *, features: int = 0) -> None:
        super().__init__(path, features=F_RING_PACKED | features)
        self._next, self._wrap = 0, True

    def set_up(self, number: int) -> None:
        """Announces a vring; the event structures are where a split ring has its rings."""
        vring = self.vrings[number]
        struct.pack_into("=HH", self.memory, vring.avail, 0, EVENTS_OFF)
        self.tell(SET_VRING_NUM, struct.pack("=II", number, self.size))
        self.tell(SET_VRING_BASE, struct.pack("=II", number, WRAP))
        rings = (USER_BASE + at for at in (vring.desc, vring.used, vring.avail))
        self.tell(SET_VRING_ADDR, struct.pack("=IIQQQQ", number, 0, *rings, 0))
        self.tell(SET_VRING_CALL, struct.pack("=Q", number), files=(self.calls[number],))
        self.tell(SET_VRING_KICK, struct.pack("=Q", number), files=(self._kicks[number],))

    def ready(
        self, *, size: int | None = None, addr: int | None = None, length: int = SLOT
    ) -> None:
        """Starts, with `size` octets of memory; receive buffers have `length` octets, at `addr`."""
        self.negotiate()
        self.share_memory()
        for number in range(2):
            self.set_up(number)
        vring = self.vrings[0]
        for slot in range(self.size):
            at = vring.buffers + slot * SLOT if addr is None else addr
            words = (at, length, slot, DESC_WRITE | DESC_AVAIL)
            struct.pack_into("=QIHH", self.memory, vring.desc + 16 * slot, *words)
        self.enable(0)

    def take(self) -> list[bytes]:
        """What has come since the last call; its buffers are given to the switch again."""
        vring = self.vrings[0]
        frames: list[bytes] = []
        while True:
            at = vring.desc + 16 * self._next
            (flags,) = struct.unpack_from("=H", self.memory, at + 14)
            if flags & (DESC_AVAIL | DESC_USED) != (DESC_AVAIL | DESC_USED if self._wrap else 0):
                return frames
            # Not before the flags: the switch writes them last.
            length, slot = struct.unpack_from("=IH", self.memory, at + 8)
            where = vring.buffers + slot * SLOT
            frames.append(bytes(self.memory[where + HEADER : where + length]))
            struct.pack_into("=QIH", self.memory, at, where, SLOT, slot)
            # The next time round: available means that one bit is the wrap counter, the other not.
            again = DESC_USED if self._wrap else DESC_AVAIL
            struct.pack_into("=H", self.memory, at + 14, DESC_WRITE | again)
            self._next += 1
            if self._next == self.size:
                self._next, self._wrap = 0, not self._wrap

    def frames(self) -> list[bytes]:
        """All that have come so far, in the order of the ring."""
        vring = self.vrings[0]
        frames: list[bytes] = []
        for at in range(self.size):
            _, length, slot, flags = struct.unpack_from("=QIHH", self.memory, vring.desc + 16 * at)
            if flags & DESC_AVAIL == 0 or flags & DESC_USED == 0:
                break
            where = vring.buffers + slot * SLOT
            frames.append(bytes(self.memory[where + HEADER : where + length]))
        return frames


def transmit_together(sender: Guest, frames: list[bytes]) -> None:
    """Sends frames, one to a slot, that a switch can only see all at once."""
    vring = sender.vrings[1]
    index = vring._avail[1]
    for turn, frame in enumerate(frames):
        slot = (index + turn) % sender.size
        at = vring.buffers + slot * SLOT
        data = bytes(HEADER) + frame
        sender.memory[at : at + len(data)] = data
        vring.describe(slot, length=len(data))
        vring._avail[2 + slot] = slot
    vring.claim(index + len(frames))


def received(receiver: PackedGuest, count: int) -> list[bytes]:
    """What has come when there are `count`, or when none came for a second."""
    frames: list[bytes] = []
    end = time.monotonic() + 1
    while len(frames) < count and time.monotonic() < end:
        now = receiver.frames()
        if len(now) > len(frames):
            end = time.monotonic() + 1
        frames = now
    return frames


@pytest.mark.parametrize("features", [0, F_MRG_RXBUF])
def test_packed_rings_get_bursts_as_they_are(switch: Switch, features: int) -> None:
    """Frames of all lengths, the longest just as long as the guest's buffers."""
    rundir = switch.rundir
    add_guest_ports(switch, "from", "to", columns=("mtu_request=2018",))
    sizes = (60, 61, 300, 1514, SLOT - HEADER)
    frames = [udp_frame(udp_src=n, size=sizes[n % len(sizes)]) for n in range(200)]
    with guest(rundir / "from") as sender, PackedGuest(rundir / "to", features=features) as to:
        to.ready()
        wait_for_link(switch, "from", "to")
        for start in range(0, len(frames), 20):
            transmit_together(sender, frames[start : start + 20])
            assert received(to, start + 20) == frames[: start + 20], switch.call("drops")


def bursts_of_workers(switch: Switch, port: str) -> int:
    """Packets that went to the guest of a port without librte_vhost, as whole bursts."""
    return int(dict(switch.interface(port, "statistics")[1]).get("packed_burst_packets", 0))


def test_bursts_to_packed_rings_are_sent_as_one(switch: Switch) -> None:
    """Simple frames go by the switch's own path, and it tells so."""
    add_guest_ports(switch, "from", "to")
    with guest(switch.rundir / "from") as sender, PackedGuest(switch.rundir / "to") as to:
        to.ready()
        wait_for_link(switch, "from", "to")
        frames = [numbered(n) for n in range(40)]
        for start in range(0, len(frames), 20):
            transmit_together(sender, frames[start : start + 20])
            assert received(to, start + 20) == frames[: start + 20]
        wait_until(lambda: bursts_of_workers(switch, "to") == 40, "they went by librte_vhost")


def test_a_packed_ring_goes_round(switch: Switch) -> None:
    """Bursts across the end of the ring, with both values of the wrap counter."""
    add_guest_ports(switch, "from", "to")
    with guest(switch.rundir / "from") as sender, PackedGuest(switch.rundir / "to") as to:
        to.ready()
        wait_for_link(switch, "from", "to")
        for start in range(0, 40 * 19, 19):
            frames = [numbered(start + n) for n in range(19)]
            transmit_together(sender, frames)
            got: list[bytes] = []
            end = time.monotonic() + 10
            while len(got) < len(frames) and time.monotonic() < end:
                got += to.take()
            assert got == frames
        wait_until(lambda: bursts_of_workers(switch, "to") == 40 * 19, "by librte_vhost")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two workers need two CPUs")
def test_two_workers_share_a_packed_ring(switch: Switch) -> None:
    """Nothing is lost or comes twice, and each sender's frames stay in order."""
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x3")
    bridge = add_guest_ports(switch, "one", "two", "to")
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:3")
    for cpu, name in enumerate(("one", "two")):
        switch.vsctl("set", "Interface", name, f'other_config:pmd-rxq-affinity="0:{cpu}"')
    rundir = switch.rundir
    with (
        guest(rundir / "one") as one,
        guest(rundir / "two") as two,
        PackedGuest(rundir / "to") as to,
    ):
        to.ready()
        wait_for_link(switch, "one", "two", "to")
        sent = {0: [numbered(n) for n in range(120)], 1: [numbered(1000 + n) for n in range(120)]}
        for start in range(0, 120, 10):
            for number, sender in enumerate((one, two)):
                transmit_together(sender, sent[number][start : start + 10])
        got = received(to, 240)
        for number in (0, 1):
            assert [frame for frame in got if frame in sent[number]] == sent[number]
        assert len(got) == 240


@pytest.mark.parametrize("features", [0, F_MRG_RXBUF])
@pytest.mark.parametrize("kind", [PackedGuest, SplitGuest])
def test_nothing_is_written_behind_the_end_of_a_guests_memory(
    switch: Switch, kind: type[PackedGuest | SplitGuest], features: int
) -> None:
    """Buffers shorter than the header in front of each frame, at the end of the shared memory.
    What the switch maps next to it is a second region here, whose contents the test can see."""
    add_guest_ports(switch, "from", "evil")
    rundir = switch.rundir
    for length in (1, 4, 11):
        with guest(rundir / "from") as sender, kind(rundir / "evil", features=features) as evil:
            evil.ready(addr=len(evil.memory) - length, length=length)
            wait_for_link(switch, "from", "evil")
            for turn in range(8):
                transmit_together(sender, [numbered(turn * 16 + n) for n in range(16)])
                time.sleep(0.02)
                assert evil.behind() == bytes(BEHIND), f"{length}: written behind the end"
        wait_for_link(switch, "from", "evil", up=False)
    assert switch.process is not None and switch.process.exit_code is None
