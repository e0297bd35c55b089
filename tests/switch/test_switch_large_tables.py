# SPDX-License-Identifier: Apache-2.0
"""A large table is built anew: the control thread answers, traffic goes on, order is kept."""

from __future__ import annotations

import random
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, run, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = unique_bridge()
RULES = 100_000
FLOW_MOD, BARRIER_REQUEST, BARRIER_REPLY = 14, 20, 21
ECHO_REQUEST, ECHO_REPLY, ERROR = 2, 3, 1
NO_BUFFER, ANY = 0xFFFFFFFF, 0xFFFFFFFF
OLD, NEW = 2, 3


class Session:
    """An OpenFlow 1.3 connection, message by message."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._got = b""
        self.send(0, 0)
        assert self.receive()[0] == 0  # hello

    def close(self) -> None:
        """Ends it."""
        self._socket.close()

    def send(self, kind: int, xid: int, body: bytes = b"") -> None:
        """One message."""
        self._socket.sendall(struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body)

    def receive(self) -> tuple[int, int]:
        """Type and transaction of the next message."""
        while len(self._got) < 8 or len(self._got) < struct.unpack_from("!H", self._got, 2)[0]:
            more = self._socket.recv(65536)
            assert more, "the switch ended the connection"
            self._got += more
        kind, length, xid = struct.unpack_from("!xBHI", self._got)
        self._got = self._got[length:]
        return kind, xid

    def is_silent(self) -> bool:
        """Whether nothing has come."""
        return not self._got and not select.select([self._socket], [], [], 0)[0]


def catch_all(output: int, *, command: int = 0, priority: int = 65535) -> bytes:
    """A flow-mod of a rule above all others; command 4 removes it."""
    action = struct.pack("!HHIH6x", 0, 16, output, 0)
    head = struct.pack("!QQBBHHHIIIHxx", 0, 0, 0, command, 0, 0, priority, NO_BUFFER, ANY, ANY, 0)
    return head + struct.pack("!HH4x", 1, 4) + struct.pack("!HH4x", 4, 8 + len(action)) + action


def rules(count: int) -> Iterator[str]:
    """Rules of many masks, as in access lists, all of which send to port OLD."""
    random_numbers = random.Random(1)
    seen: set[str] = set()
    while len(seen) < count:
        source, target = (random_numbers.getrandbits(32) for _ in range(2))
        wide = random_numbers.randrange(12, 33), random_numbers.randrange(12, 33)
        networks = [
            f"{'.'.join(str(each) for each in (n >> (32 - w) << (32 - w)).to_bytes(4))}/{w}"
            for n, w in zip((source, target), wide, strict=True)
        ]
        port = random_numbers.randrange(1, 65536)
        match = f"udp,nw_src={networks[0]},nw_dst={networks[1]},tp_dst={port}"
        if match in seen:
            continue
        seen.add(match)
        yield f"priority={random_numbers.randrange(10, 1000)},{match},actions=output:{OLD}"


@contextmanager
def wired(switch: Switch) -> Iterator[list[RawPort]]:
    """A bridge with three ports and the rules; the far ends of the ports."""
    with ExitStack() as stack:
        switch.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure")
        ports = []
        for number in (1, OLD, NEW):
            pair = stack.enter_context(VethPair())
            switch.vsctl(
                *("add-port", BRIDGE, pair.near, "--", "set", "Interface", pair.near),
                *("type=system", f"ofport_request={number}"),
            )
            ports.append(RawPort(pair.far))
            stack.callback(ports[-1].close)
        yield ports
        switch.vsctl("del-br", BRIDGE)


def test_a_rebuild_stalls_nothing(switch: Switch, tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.write_text("\n".join([*rules(RULES), f"priority=1,actions=output:{OLD}"]) + "\n")
    socket_path = switch.rundir / f"{BRIDGE}.mgmt"
    frame = udp_frame()
    with wired(switch) as (inlet, old, new), ExitStack() as stack:
        session, other = Session(socket_path), Session(socket_path)
        stack.callback(session.close)
        stack.callback(other.close)
        run("ovs-ofctl", "-O", "OpenFlow13", "add-flows", f"unix:{socket_path}", flows)
        assert f"flow_count={RULES + 1}" in switch.ofctl("dump-aggregate", BRIDGE)

        def leaves_by() -> int:
            inlet.send(frame)
            ready = select.select([old, new], [], [], 20)[0]
            assert ready, "a packet was lost"
            by_old, by_new = old.receive(9, 0.02), new.receive(9, 0.02)
            assert [len(by_old), len(by_new)] in ([1, 0], [0, 1])
            return OLD if by_old else NEW

        assert leaves_by() == OLD
        session.send(FLOW_MOD, 1, catch_all(NEW))
        session.send(BARRIER_REQUEST, 2)
        # Behind the barrier: it waits, too.
        session.send(FLOW_MOD, 3, catch_all(NEW, priority=65534))
        session.send(ECHO_REQUEST, 4)
        other.send(ECHO_REQUEST, 5)
        other.send(BARRIER_REQUEST, 6)
        # All of this is answered while the table is being built.
        assert session.receive() == (ECHO_REPLY, 4)
        assert other.receive() == (ECHO_REPLY, 5)
        assert other.receive() == (BARRIER_REPLY, 6)
        switch.vsctl("set", "Bridge", BRIDGE, "external-ids:during=build")
        assert switch.call("show")["lsis"]
        assert session.is_silent(), "the barrier was answered before others were"
        assert leaves_by() == OLD
        while session.is_silent():
            assert leaves_by() in (OLD, NEW)
        assert session.receive() == (BARRIER_REPLY, 2)
        assert leaves_by() == NEW
        session.send(FLOW_MOD, 7, catch_all(NEW, command=4))
        session.send(BARRIER_REQUEST, 8)
        assert session.receive() == (BARRIER_REPLY, 8)
        assert leaves_by() == NEW
        session.send(FLOW_MOD, 9, catch_all(NEW, command=4, priority=65534))
        session.send(BARRIER_REQUEST, 10)
        assert session.receive() == (BARRIER_REPLY, 10)
        assert leaves_by() == OLD
