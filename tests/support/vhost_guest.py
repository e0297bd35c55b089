# SPDX-License-Identifier: Apache-2.0
"""The guest's side of vhost-user: a virtio-net device with split rings in memory of this process.

For what no ordinary driver does: enabling some pairs of queues and not others, taking them away
under load, descriptors that lead nowhere, messages that make no sense. The message layouts are of
QEMU's vhost-user specification, the rings' of virtio 1.2 (section 2.7).
"""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL = 12, 13
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, SET_VRING_ENABLE = 15, 16, 18

VERSION, NEED_REPLY = 0x1, 0x8
F_MQ, F_PROTOCOL_FEATURES, F_VERSION_1 = 1 << 22, 1 << 30, 1 << 32
F_CSUM, F_GUEST_CSUM = 1 << 0, 1 << 1
F_GUEST_TSO4, F_GUEST_TSO6, F_HOST_TSO4, F_HOST_TSO6 = 1 << 7, 1 << 8, 1 << 11, 1 << 12
F_MRG_RXBUF = 1 << 15
F_ACCESS_PLATFORM = 1 << 33
PROTOCOL_F_MQ, PROTOCOL_F_REPLY_ACK, PROTOCOL_F_PAGEFAULT = 1 << 0, 1 << 3, 1 << 8

DESC_NEXT, DESC_WRITE, DESC_INDIRECT = 1, 2, 4
AVAIL_NO_INTERRUPT = 1
HEADER = 12
"""Octets of virtio_net_hdr before each frame."""
SLOT = 2048
PAGE = 4096
USER_BASE = 0x7F00_0000_0000
"""Where the guest's memory is said to be in this process; rings are named by such addresses."""


@dataclass(frozen=True)
class VnetHeader:
    """struct virtio_net_hdr_mrg_rxbuf (virtio 1.2, 5.1.6), with what each field is without it."""

    flags: int = 0
    gso_type: int = 0
    length: int = 0
    """Octets of headers in front of what is to be cut."""
    gso_size: int = 0
    csum_start: int = 0
    csum_offset: int = 0
    buffers: int = 0

    NEEDS_CSUM: ClassVar = 1
    TCPV4: ClassVar = 1
    TCPV6: ClassVar = 4
    _FORMAT: ClassVar = "<BBHHHHH"

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The header in front of a frame."""
        return cls(*struct.unpack_from(cls._FORMAT, data))

    def pack(self) -> bytes:
        """HEADER octets."""
        return struct.pack(
            self._FORMAT,
            self.flags,
            self.gso_type,
            self.length,
            self.gso_size,
            self.csum_start,
            self.csum_offset,
            self.buffers,
        )


class Vring:
    """One split ring of `size` entries with a buffer of SLOT octets for each."""

    def __init__(self, memory: mmap.mmap, start: int, size: int) -> None:
        """`start` is the offset in the guest's memory, which is also its guest-physical address."""
        self.size = size
        self.memory = memory
        self.desc = start
        self.avail = start + _pages(16 * size)
        self.used = self.avail + _pages(6 + 2 * size)
        self.buffers = self.used + _pages(6 + 8 * size)
        view = memoryview(memory)
        # Through a view of 16 bits, an index is written by one store.
        self._avail = view[self.avail : self.avail + 4 + 2 * size].cast("H")
        self._used = view[self.used : self.used + 4].cast("H")
        self._seen = 0
        for slot in range(size):
            self.describe(slot)

    @staticmethod
    def octets(size: int) -> int:
        """Memory that a ring takes."""
        return _pages(16 * size) + _pages(6 + 2 * size) + _pages(6 + 8 * size) + size * SLOT

    def describe(
        self,
        slot: int,
        *,
        addr: int | None = None,
        length: int = SLOT,
        flags: int = 0,
        next: int = 0,
    ) -> None:
        """Writes a descriptor; without `addr`, of the slot's own buffer."""
        where = self.buffers + slot * SLOT if addr is None else addr
        struct.pack_into("=QIHH", self.memory, self.desc + 16 * slot, where, length, flags, next)

    def suppress(self, on: bool = True) -> None:
        """Asks not to be kicked, or to be."""
        self._avail[0] = AVAIL_NO_INTERRUPT if on else 0

    def offer(self, slot: int) -> None:
        """Makes a descriptor available."""
        self._avail[2 + self._avail[1] % self.size] = slot
        self._avail[1] = (self._avail[1] + 1) & 0xFFFF

    def claim(self, index: int) -> None:
        """Writes the index of the available ring, true or not."""
        self._avail[1] = index & 0xFFFF

    def taken(self) -> Iterator[tuple[int, int]]:
        """Slots that the switch has used since the last call, and the octets that it wrote."""
        while self._seen != self._used[1]:
            at = self.used + 4 + 8 * (self._seen % self.size)
            slot, length = struct.unpack_from("=II", self.memory, at)
            self._seen = (self._seen + 1) & 0xFFFF
            yield slot, length

    def release(self) -> None:
        """Lets go of the memory."""
        self._avail.release()
        self._used.release()


class Guest:
    """A device with `pairs` queue pairs, none of them enabled; a context manager."""

    def __init__(self, path: Path, *, pairs: int = 1, size: int = 256, features: int = 0) -> None:
        """Connects to the socket of a port of type dpdkvhostuser.

        `features` are to be negotiated beside those that any guest of this kind has.
        """
        self.pairs = pairs
        self.size = size
        self.features = features
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        octets = 2 * pairs * Vring.octets(size)
        self.file = os.memfd_create("guest")
        os.ftruncate(self.file, octets)
        self.memory = mmap.mmap(self.file, octets)
        starts = (number * Vring.octets(size) for number in range(2 * pairs))
        self.vrings = [Vring(self.memory, start, size) for start in starts]
        self.calls = [os.eventfd(0, os.EFD_NONBLOCK) for _ in self.vrings]
        self._kicks = [os.eventfd(0, os.EFD_NONBLOCK) for _ in self.vrings]
        self._free = [list(range(size)) for _ in range(pairs)]  # slots of the transmit queues
        self._chains: list[dict[int, list[int]]] = [{} for _ in range(pairs)]  # by their first

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the connection and gives the memory back."""
        self.close()

    def close(self) -> None:
        """As if the machine was switched off; twice is as good as once."""
        self.socket.close()
        if self.memory.closed:
            return
        for vring in self.vrings:
            vring.release()
        self.memory.close()
        for file in (*self.calls, *self._kicks, self.file):
            os.close(file)

    # --- messages ---

    def send(
        self,
        request: int,
        payload: bytes = b"",
        *,
        files: tuple[int, ...] = (),
        flags: int = VERSION,
    ) -> None:
        """One message."""
        header = struct.pack("=III", request, flags, len(payload))
        ancillary = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        )
        self.socket.sendmsg([header + payload], ancillary)

    def reply(self) -> bytes:
        """The payload of the answer to the last message."""
        header = self._receive(12)
        return self._receive(struct.unpack("=III", header)[2])

    def _receive(self, octets: int) -> bytes:
        data = b""
        while len(data) < octets:
            more = self.socket.recv(octets - len(data))
            if not more:
                raise ConnectionError("the switch has closed the connection")
            data += more
        return data

    def ask(self, request: int) -> int:
        """A message whose answer is a number."""
        self.send(request)
        (value,) = struct.unpack("=Q", self.reply())
        return int(value)

    def tell(self, request: int, payload: bytes, *, files: tuple[int, ...] = ()) -> None:
        """A message that has had its effect when this returns; ConnectionError if it is refused."""
        self.send(request, payload, files=files, flags=VERSION | NEED_REPLY)
        (failed,) = struct.unpack("=Q", self.reply())
        if failed:
            raise ConnectionError(f"the switch refused message {request}")

    # --- the life of a device ---

    def negotiate(self) -> int:
        """Agrees on features; the ones that were offered."""
        offered = self.ask(GET_FEATURES)
        self.send(SET_OWNER)
        self.ask(GET_PROTOCOL_FEATURES)
        self.send(SET_PROTOCOL_FEATURES, struct.pack("=Q", PROTOCOL_F_MQ | PROTOCOL_F_REPLY_ACK))
        wanted = F_MQ | F_PROTOCOL_FEATURES | F_VERSION_1 | self.features
        self.tell(SET_FEATURES, struct.pack("=Q", wanted))
        return offered

    def share_memory(self, *, size: int | None = None) -> None:
        """Shares all memory as one region, or says that it has another size."""
        octets = len(self.memory) if size is None else size
        region = struct.pack("=QQQQ", 0, octets, USER_BASE, 0)
        self.tell(SET_MEM_TABLE, struct.pack("=II", 1, 0) + region, files=(self.file,))

    def set_up(self, number: int) -> None:
        """Announces a vring."""
        vring = self.vrings[number]
        self.tell(SET_VRING_NUM, struct.pack("=II", number, self.size))
        self.tell(SET_VRING_BASE, struct.pack("=II", number, 0))
        rings = (USER_BASE + at for at in (vring.desc, vring.used, vring.avail))
        self.tell(SET_VRING_ADDR, struct.pack("=IIQQQQ", number, 0, *rings, 0))
        self.tell(SET_VRING_CALL, struct.pack("=Q", number), files=(self.calls[number],))
        self.tell(SET_VRING_KICK, struct.pack("=Q", number), files=(self._kicks[number],))

    def enable(self, pair: int, on: bool = True) -> None:
        """Both vrings of a pair."""
        for number in (2 * pair, 2 * pair + 1):
            self.tell(SET_VRING_ENABLE, struct.pack("=II", number, int(on)))

    def start(self, *, enabled: tuple[int, ...] = (0,)) -> None:
        """Does all of the above; the guest is then ready to get and send frames."""
        self.negotiate()
        self.share_memory()
        for number, vring in enumerate(self.vrings):
            vring.suppress()
            self.set_up(number)
        for pair in range(self.pairs):
            for slot in range(self.size):
                self._give(pair, slot)
        for pair in enabled:
            self.enable(pair)

    # --- frames ---

    def _give(self, pair: int, slot: int) -> None:
        """Lets the switch write to a slot of the receive queue."""
        vring = self.vrings[2 * pair]
        vring.describe(slot, flags=DESC_WRITE)
        vring.offer(slot)

    def received(self, pair: int) -> list[bytes]:
        """Frames that have come by this pair since the last call."""
        return [frame for _, frame in self.received_with_headers(pair)]

    def received_with_headers(self, pair: int) -> list[tuple[VnetHeader, bytes]]:
        """The same, each with its virtio_net_hdr; a frame may lie in several slots."""
        vring = self.vrings[2 * pair]
        frames: list[tuple[VnetHeader, bytes]] = []
        missing = 0
        for slot, length in vring.taken():
            at = vring.buffers + slot * SLOT
            data = bytes(self.memory[at : at + length])
            if missing:
                header, frame = frames[-1]
                frames[-1] = (header, frame + data)
                missing -= 1
            else:
                header = VnetHeader.parse(data)
                frames.append((header, data[HEADER:]))
                missing = header.buffers - 1 if self.features & F_MRG_RXBUF else 0
            self._give(pair, slot)
        assert missing == 0, "the switch has used a part of a frame's buffers"
        return frames

    def kicks(self, number: int) -> int:
        """How often the switch has kicked a vring since the last call."""
        try:
            return os.eventfd_read(self.calls[number])
        except BlockingIOError:
            return 0

    def transmit(self, pair: int, frame: bytes, header: VnetHeader | None = None) -> None:
        """Sends a frame by this pair, when there are free slots for it."""
        vring = self.vrings[2 * pair + 1]
        data = (VnetHeader() if header is None else header).pack() + frame
        pieces = [data[at : at + SLOT] for at in range(0, len(data), SLOT)]
        deadline = time.monotonic() + 10
        while len(self._free[pair]) < len(pieces):
            for slot, _ in vring.taken():
                self._free[pair] += self._chains[pair].pop(slot)
            assert time.monotonic() < deadline, f"the switch takes nothing from pair {pair}"
        slots = [self._free[pair].pop() for _ in pieces]
        for slot, following, piece in zip(slots, [*slots[1:], None], pieces, strict=True):
            at = vring.buffers + slot * SLOT
            self.memory[at : at + len(piece)] = piece
            flags = 0 if following is None else DESC_NEXT
            vring.describe(slot, length=len(piece), flags=flags, next=following or 0)
        self._chains[pair][slots[0]] = slots
        vring.offer(slots[0])


def _pages(octets: int) -> int:
    return (octets + PAGE - 1) // PAGE * PAGE


@contextmanager
def guest(
    path: Path, *, pairs: int = 1, enabled: tuple[int, ...] = (0,), features: int = 0
) -> Iterator[Guest]:
    """A guest that is ready."""
    with Guest(path, pairs=pairs, features=features) as made:
        made.start(enabled=enabled)
        yield made
